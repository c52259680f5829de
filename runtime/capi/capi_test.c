/* The C interface on a program whose method `forward` takes and gives one float tensor of shape [2, 3]: prints the
 * output, and writes the profile of two runs and the values in them to the second and third file that are named. Wrong
 * calls must fail with a message and leave the method usable. */
#include <stdio.h>
#include <string.h>

#include "capi/etir.h"

#define CHECK(condition)                                            \
  if (!(condition)) {                                               \
    fprintf(stderr, "line %d: failed: %s\n", __LINE__, #condition); \
    return 1;                                                       \
  }

static int write_file(const char* path, const void* data, size_t size) {
  FILE* file = fopen(path, "wb");
  const int good = file != NULL && fwrite(data, 1, size, file) == size;
  return file != NULL && fclose(file) == 0 && good;
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
  const void* profile;
  size_t i, size;

  CHECK(argc == 4);
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

  profile = etir_method_profile(method, &size);
  CHECK(profile == NULL && size == 0 && strstr(etir_last_error(), "etir_method_record") != NULL);
  CHECK(etir_method_record(method, 0) == 0);
  CHECK(etir_method_run(method, &x, 1) == 0);
  CHECK(etir_method_profile(method, &size) != NULL && size > 0);
  CHECK(etir_method_profile_values(method, &size) == NULL && size == 0);
  CHECK(etir_method_record(method, 1) == 0); /* from the beginning again */
  for (i = 0; i < 2; ++i) CHECK(etir_method_run(method, &x, 1) == 0);
  CHECK(etir_method_num_dropped(method) == 0);
  profile = etir_method_profile(method, &size);
  CHECK(profile != NULL && write_file(argv[2], profile, size));
  profile = etir_method_profile_values(method, &size);
  CHECK(profile != NULL && write_file(argv[3], profile, size));
  etir_method_stop_recording(method);
  CHECK(etir_method_profile(method, &size) == NULL && etir_method_num_dropped(method) == 0);
  CHECK(etir_method_run(method, &x, 1) == 0);
  etir_method_free(method);
  etir_method_free(NULL);
  etir_program_free(NULL);
  return 0;
}
