// Runs one function of `tile` with every input, output, weight and the arena in memory of its own, of its exact size.
//
//   runner description output
//
// Compiled together with the generated C under sanitizers (ETIR_LINKED), where each block is a malloc; or alone, where
// the description names an image that is copied to executable memory as the runtime does, and each block lies between
// pages that nothing can access: once with its end at the end of a page, once with its start at the start of one.
//
// The description: lines `image PATH BYTES ENTRY`, `input PATH BYTES`, `output BYTES`, `weight PATH BYTES`,
// `arena BYTES`, `poison AT BYTES` (bytes of the arena that nothing may touch) and `size NUMBER` (a dim of an argument
// that is known at run time only; the function says those of outputs itself, when it is asked first). The outputs are written one after
// another. The function runs twice: in one part, and in parts of the least size from the last to the first, which gives
// the same bits.
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "call.h"

#ifdef ETIR_LINKED
#include <sanitizer/asan_interface.h>
#endif

#define MOST 4096
static void *inputs[MOST], *outputs[MOST], *weights[MOST];
static size_t output_bytes[MOST], input_bytes[MOST], weight_bytes[MOST];
static int input_count, output_count, weight_count, size_count;
static int64_t sizes[MOST];
static char files[2 * MOST][256];

static void fail(const char* what) {
  fprintf(stderr, "runner: %s\n", what);
  exit(3);
}

static void* block(size_t size, int at_end) {
#ifdef ETIR_LINKED
  (void)at_end;
  void* made = NULL;
  // Bytes are exact: what comes after them is not accessible.
  if (posix_memalign(&made, 64, size) != 0) fail("no memory");
  return made;
#else
  const size_t page = (size_t)sysconf(_SC_PAGESIZE), pages = (size + page - 1) / page * page;
  uint8_t* whole = mmap(NULL, pages + 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (whole == MAP_FAILED || (pages > 0 && mprotect(whole + page, pages, PROT_READ | PROT_WRITE) != 0)) fail("mmap");
  return whole + page + (at_end ? pages - size : 0);
#endif
}

static void* from_file(const char* path, size_t size, int at_end) {
  void* made = block(size, at_end);
  FILE* file = fopen(path, "rb");
  if (file == NULL || fread(made, 1, size, file) != size) fail("a file is too short");
  fclose(file);
  return made;
}

// Bytes of the arena that nothing may touch, or may again; of whole pages, where the processor says it.
static void bar(uint8_t* arena, size_t at, size_t size, int barred) {
#ifdef ETIR_LINKED
  if (barred) {
    ASAN_POISON_MEMORY_REGION(arena + at, size);
  } else {
    ASAN_UNPOISON_MEMORY_REGION(arena + at, size);
  }
#else
  const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
  const uintptr_t begin = ((uintptr_t)arena + at + page - 1) / page * page,
                  end = ((uintptr_t)arena + at + size) / page * page;
  if (end > begin && mprotect((void*)begin, end - begin, barred ? PROT_NONE : PROT_READ | PROT_WRITE) != 0)
    fail("mprotect");
#endif
}

static void backwards(void* pool, int64_t count, int64_t grain, void (*part)(void*, int64_t, int64_t), void* given) {
  (void)pool;
  if (grain < 1) grain = 1;
  for (int64_t begin = (count - 1) / grain * grain; begin >= 0; begin -= grain) {
    part(given, begin, begin + grain < count ? begin + grain : count);
  }
}

int32_t etir_native_entry(const struct etir_native_call* call);

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  FILE* description = fopen(argv[1], "r");
  if (description == NULL) fail("no description");
  char word[16], image[256] = "";
  size_t image_bytes = 0, entry_at = 0, arena_bytes = 0;
  static size_t poison[MOST][2];
  int poisons = 0;
  while (fscanf(description, "%15s", word) == 1) {
    int ok = 1;
    if (input_count + weight_count >= MOST || output_count >= MOST || poisons >= MOST) fail("too many");
    if (strcmp(word, "image") == 0) {
      ok = fscanf(description, "%255s %zu %zu", image, &image_bytes, &entry_at) == 3;
    } else if (strcmp(word, "input") == 0) {
      ok = fscanf(description, "%255s %zu", files[input_count], &input_bytes[input_count]) == 2;
      ++input_count;
    } else if (strcmp(word, "weight") == 0) {
      ok = fscanf(description, "%255s %zu", files[MOST + weight_count], &weight_bytes[weight_count]) == 2;
      ++weight_count;
    } else if (strcmp(word, "output") == 0) {
      ok = fscanf(description, "%zu", &output_bytes[output_count++]) == 1;
    } else if (strcmp(word, "arena") == 0) {
      ok = fscanf(description, "%zu", &arena_bytes) == 1;
    } else if (strcmp(word, "size") == 0) {
      long long size = 0;
      ok = size_count < MOST && fscanf(description, "%lld", &size) == 1;
      if (ok) sizes[size_count++] = size;
    } else if (strcmp(word, "poison") == 0) {
      ok = fscanf(description, "%zu %zu", &poison[poisons][0], &poison[poisons][1]) == 2;
      ++poisons;
    }
    if (!ok) fail(word);
  }
  fclose(description);
  int32_t (*entry)(const struct etir_native_call*) = NULL;
#ifdef ETIR_LINKED
  entry = etir_native_entry;
#else
  void* code = mmap(NULL, image_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  FILE* file = fopen(image, "rb");
  if (code == MAP_FAILED || file == NULL || fread(code, 1, image_bytes, file) != image_bytes) fail("no image");
  fclose(file);
  if (mprotect(code, image_bytes, PROT_READ | PROT_EXEC) != 0) fail("mprotect");
  entry = (int32_t(*)(const struct etir_native_call*))((uint8_t*)code + entry_at);
#endif
  static uint8_t* first[MOST];
  FILE* out = fopen(argv[2], "wb");
  if (out == NULL) fail("no output");
  for (int round = 0; round < 2; ++round) {
    const int at_end = round == 0;
    for (int i = 0; i < input_count; ++i) inputs[i] = from_file(files[i], input_bytes[i], at_end);
    for (int i = 0; i < weight_count; ++i) weights[i] = from_file(files[MOST + i], weight_bytes[i], at_end);
    // What nothing has written is NaN.
    for (int i = 0; i < output_count; ++i) memset(outputs[i] = block(output_bytes[i], at_end), 0xff, output_bytes[i]);
    uint8_t* arena = NULL;
    if (arena_bytes > 0) memset(arena = block(arena_bytes, at_end), 0xff, arena_bytes);
    for (int i = 0; i < poisons; ++i) bar(arena, poison[i][0], poison[i][1], 1);
    int64_t* const given = size_count > 0 ? block(sizeof(int64_t) * (size_t)size_count, at_end) : NULL;
    for (int i = 0; i < size_count; ++i) given[i] = sizes[i];
    struct etir_native_call call = {(const void* const*)inputs, NULL, (const void* const*)weights, NULL, given, NULL,
                        round == 0 ? NULL : backwards};
    if (size_count > 0 && entry(&call) != 0) fail("the function does not take the sizes");
    call.outputs = outputs;
    call.arena = arena;
    if (entry(&call) != 0) fail("the function returns an error");
    for (int i = 0; i < output_count; ++i) {
      if (round == 0) {
        if (fwrite(outputs[i], 1, output_bytes[i], out) != output_bytes[i]) fail("cannot write");
        first[i] = outputs[i];
      } else if (memcmp(first[i], outputs[i], output_bytes[i]) != 0) {
        fail("parts in another order have another result");
      }
    }
    for (int i = 0; i < poisons; ++i) bar(arena, poison[i][0], poison[i][1], 0);
  }
  return fclose(out) == 0 ? 0 : 3;
}
