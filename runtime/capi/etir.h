/* The runtime for C, and for languages that call C.
 *
 *   etir_program* program = etir_program_open("model.pte", 1);
 *   etir_method* method = program ? etir_method_load(program, "forward") : NULL;
 *   int32_t sizes[] = {2, 3};
 *   etir_value x = {.kind = ETIR_TENSOR, .dtype = 6, .rank = 2, .sizes = sizes, .data = floats};
 *   if (method == NULL || etir_method_run(method, &x, 1) != 0) puts(etir_last_error());
 *   const etir_value* y = etir_method_output(method, 0);
 *
 * Functions that fail return NULL or a number that is not 0, and leave a message for their thread. Pointers that are
 * passed in must not be NULL unless it says so. Programs and methods may be used from any thread, but the outputs of a
 * method belong to its last run. */
#ifndef ETIR_H
#define ETIR_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define ETIR_API __attribute__((visibility("default")))
#else
#define ETIR_API
#endif

typedef struct etir_program etir_program;
typedef struct etir_method etir_method;

/* Kinds of values, as the file format numbers them. Lists have their items in `items`. */
typedef enum etir_kind {
  ETIR_NONE = 1,
  ETIR_INT = 2,
  ETIR_BOOL = 3,
  ETIR_DOUBLE = 4,
  ETIR_TENSOR = 5,
  ETIR_STRING = 6,
  ETIR_INT_LIST = 7,
  ETIR_DOUBLE_LIST = 8,
  ETIR_BOOL_LIST = 9,
  ETIR_TENSOR_LIST = 10,
  ETIR_OPTIONAL_TENSOR_LIST = 11
} etir_kind;

/* A value. Which members mean something depends on the kind. */
typedef struct etir_value {
  etir_kind kind;
  int64_t integer;          /* INT; BOOL: 0 or 1 */
  double real;              /* DOUBLE */
  int32_t dtype;            /* TENSOR: number of torch's ScalarType: 0 uint8, 3 int32, 4 int64, 5 half, 6 float, ... */
  int32_t rank;             /* at most 16 */
  const int32_t* sizes;     /* `rank` sizes */
  const uint8_t* dim_order; /* dims from outermost to innermost; NULL in an input: row-major */
  void* data;               /* elements, dense; NULL when there are none */
  size_t nbytes;            /* of `data`; not read from inputs */
  const char* text;         /* STRING */
  const struct etir_value* items;
  size_t count;
} etir_value;

/* Reads a file (_open), or takes bytes (_load), which must stay as they are until the program and all its methods are
 * freed, at an address that is a multiple of 8. `threads` is how many a run may use, at least 1. */
ETIR_API etir_program* etir_program_open(const char* path, int threads);
ETIR_API etir_program* etir_program_load(const void* bytes, size_t size, int threads);
/* The same with external weights: `count` .ptd files. */
ETIR_API etir_program* etir_program_open_with_data(const char* path, const char* const* data, size_t count,
                                                   int threads);
/* Methods may outlive their program. NULL is allowed. */
ETIR_API void etir_program_free(etir_program* program);
ETIR_API size_t etir_program_num_methods(const etir_program* program);
/* Name of a method, valid as long as the program; NULL when there is no such method. */
ETIR_API const char* etir_program_method_name(const etir_program* program, size_t index);

/* A method with memory of its own. Free it after its last use; NULL is allowed. */
ETIR_API etir_method* etir_method_load(etir_program* program, const char* name);
ETIR_API void etir_method_free(etir_method* method);
ETIR_API size_t etir_method_num_inputs(const etir_method* method);
ETIR_API size_t etir_method_num_outputs(const etir_method* method);
/* What an input is: kind, and for tensors dtype, rank, sizes (the largest), dim order and bytes; `data` is NULL. Fills
 * `*info`, whose pointers are valid as long as the method. */
ETIR_API int etir_method_input_info(const etir_method* method, size_t index, etir_value* info);
/* What the program calls an input or output: the argument, and the keys on the way to a value in containers, joined by
 * '_' ("batch_ids" for batch={"ids": ...}), in UTF-8. NULL where the file does not say, and when there is no such input
 * or output. Valid as long as the method. */
ETIR_API const char* etir_method_input_name(const etir_method* method, size_t index);
ETIR_API const char* etir_method_output_name(const etir_method* method, size_t index);

/* Executes the method on `count` inputs. Tensors are used in place or copied; they need to live during the call. */
ETIR_API int etir_method_run(etir_method* method, const etir_value* inputs, size_t count);
/* Output of the last run that worked, valid until the next run; NULL when there is none. */
ETIR_API const etir_value* etir_method_output(const etir_method* method, size_t index);

/* Where the time of runs goes, as an ETDump, the profile format of ExecuTorch's developer tools: et-inspect, et-explore
 * and the Inspector read it.
 *
 *   etir_method_record(method, 0);
 *   for (i = 0; i < 20; ++i) etir_method_run(method, &x, 1);
 *   const void* profile = etir_method_profile(method, &size);   then fwrite(profile, 1, size, file) into a .etdp file
 *
 * _record begins a recording of all runs from here on, and forgets an earlier one. With `values` not 0 it also keeps
 * what every instruction left, and the outputs: copies of up to a GiB. Memory is taken as it is filled. */
ETIR_API int etir_method_record(etir_method* method, int values);
/* Ends the recording and frees its memory. */
ETIR_API void etir_method_stop_recording(etir_method* method);
/* The profile of the runs until now, and the bytes of the values that it refers to, which go into a file of their own.
 * NULL when nothing is recorded; the profile also when it is larger than its format allows. Valid until the next run or
 * call that is about the recording. */
ETIR_API const void* etir_method_profile(etir_method* method, size_t* size);
ETIR_API const void* etir_method_profile_values(etir_method* method, size_t* size);
/* Events and values that there was no room for; they are missing in the profile. */
ETIR_API uint64_t etir_method_num_dropped(const etir_method* method);

/* What went wrong in the last call of this thread that failed: a sentence, and the number of the check in
 * core/checks.def (0 for failures outside of a program). */
ETIR_API const char* etir_last_error(void);
ETIR_API int etir_last_check(void);

#ifdef __cplusplus
}
#endif
#endif
