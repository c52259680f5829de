/* The C interface on a program whose method `forward` takes and gives one float tensor of shape [2, 3]: prints the
 * output. Wrong calls must fail with a message and leave the method usable. */
#include <stdio.h>
#include <string.h>

#include "capi/etir.h"

#define CHECK(condition)                                            \
  if (!(condition)) {                                               \
    fprintf(stderr, "line %d: failed: %s\n", __LINE__, #condition); \
    return 1;                                                       \
  }

int main(int argc, char** argv) {
  float data[6] = {1, 2, 3, 4, 5, 6};
  const int32_t sizes[2] = {2, 3};
  const int32_t wrong_sizes[2] = {3, 2};
  etir_value x;
  etir_value info;
  etir_program* program;
  etir_method* method;
  const etir_value* y;
  size_t i;

  CHECK(argc == 2);
  CHECK(etir_program_open("no such file", 1) == NULL);
  CHECK(strstr(etir_last_error(), "no such file") != NULL);
  CHECK(etir_program_load(data, sizeof(data), 1) == NULL);
  CHECK(etir_last_check() != 0);

  program = etir_program_open(argv[1], 2);
  CHECK(program != NULL);
  CHECK(etir_program_num_methods(program) == 1);
  CHECK(strcmp(etir_program_method_name(program, 0), "forward") == 0);
  CHECK(etir_program_method_name(program, 1) == NULL);
  CHECK(etir_method_load(program, "backward") == NULL);
  CHECK(strstr(etir_last_error(), "backward") != NULL);
  method = etir_method_load(program, "forward");
  CHECK(method != NULL);
  etir_program_free(program); /* the method keeps what it needs */

  CHECK(etir_method_num_inputs(method) == 1 && etir_method_num_outputs(method) == 1);
  CHECK(etir_method_input_info(method, 0, &info) == 0);
  CHECK(info.kind == ETIR_TENSOR && info.dtype == 6 && info.rank == 2 && info.sizes[1] == 3 && info.nbytes == 24);
  CHECK(etir_method_input_info(method, 1, &info) != 0);
  CHECK(etir_method_output(method, 0) == NULL);
  CHECK(strcmp(etir_method_input_name(method, 0), "x") == 0 && etir_method_input_name(method, 1) == NULL);
  CHECK(etir_method_output_name(method, 0) == NULL);

  memset(&x, 0, sizeof(x));
  x.kind = ETIR_TENSOR;
  x.dtype = 6;
  x.rank = 2;
  x.data = data;
  x.sizes = wrong_sizes;
  CHECK(etir_method_run(method, &x, 1) != 0);
  CHECK(etir_last_check() == 508);
  CHECK(etir_method_run(method, &x, 0) != 0);
  x.sizes = sizes;
  CHECK(etir_method_run(method, &x, 1) == 0);
  y = etir_method_output(method, 0);
  CHECK(y != NULL && y->kind == ETIR_TENSOR && y->rank == 2 && y->nbytes == 24);
  CHECK(etir_method_output(method, 1) == NULL);
  for (i = 0; i < y->nbytes / sizeof(float); ++i) printf("%g\n", ((const float*)y->data)[i]);
  etir_method_free(method);
  etir_method_free(NULL);
  etir_program_free(NULL);
  return 0;
}
