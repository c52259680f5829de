// Calls generated code as the runtime does, with what a file says, on a machine that is emulated: Linux, where the code
// is an image in the file, and Cortex-M without an operating system, where it is linked (ETIR_LINKED).
//
// call.bin has 64-bit numbers: bytes of the image, its entry, counts of inputs, outputs and weights, bytes of the
// arena, then the bytes of each input, output and weight; then the image, inputs and weights, each at a multiple of 64.
// out.bin are the outputs. Between everything lie guards; one that has changed is exit code 3.
#include <stdint.h>

#include "call.h"

typedef int32_t (*entry_type)(const struct etir_native_call*);

enum { kGuard = 128, kMost = 256 };

#ifdef ETIR_LINKED
int32_t etir_native_entry(const struct etir_native_call* call);

static int semihosting(int operation, void* block) {
  register int r0 __asm__("r0") = operation;
  register void* r1 __asm__("r1") = block;
  __asm__ volatile("bkpt 0xab" : "+r"(r0) : "r"(r1) : "memory");
  return r0;
}
static uint8_t memory[ETIR_LINKED] __attribute__((section(".arena"), aligned(64)));

static void* allocate(uint64_t size) {
  static uintptr_t next = 0;
  const uintptr_t at = next;
  next = (uintptr_t)((at + size + 63) / 64 * 64);
  return next > sizeof(memory) ? 0 : memory + at;
}
static uint8_t* read_file(const char* name, uint32_t length) {
  uint32_t open[3] = {(uint32_t)(uintptr_t)name, 1, length};
  uint32_t file = (uint32_t)semihosting(1, open);
  const uint32_t size = (uint32_t)semihosting(12, &file);
  uint8_t* data = allocate(size);
  uint32_t read[3] = {file, (uint32_t)(uintptr_t)data, size};
  return data != 0 && semihosting(6, read) == 0 ? data : 0;
}
static uint32_t out_file(void) {
  static uint32_t file = 0;
  static const char name[] = "out.bin";
  uint32_t open[3] = {(uint32_t)(uintptr_t)name, 5, 7};
  if (file == 0) file = (uint32_t)semihosting(1, open);
  return file;
}
static void write_out(const void* data, uint64_t size) {
  uint32_t write[3] = {out_file(), (uint32_t)(uintptr_t)data, (uint32_t)size};
  semihosting(5, write);
}
#else
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

static void* allocate(uint64_t size) { return aligned_alloc(64, (size + 63) / 64 * 64 + 64); }
static uint8_t* read_file(const char* name, uint32_t length) {
  (void)length;
  FILE* file = fopen(name, "rb");
  if (file == 0 || fseek(file, 0, SEEK_END) != 0) return 0;
  const long size = ftell(file);
  rewind(file);
  uint8_t* data = allocate((uint64_t)size);
  return fread(data, 1, (size_t)size, file) == (size_t)size ? data : 0;
}
static void write_out(const void* data, uint64_t size) {
  static FILE* file = 0;
  if (file == 0) file = fopen("out.bin", "wb");
  fwrite(data, 1, size, file);
  fflush(file);
}
#endif

static void fill(uint8_t* to, uint64_t size) {
  for (uint64_t i = 0; i < size; ++i) to[i] = 0xff;
}
static int is_filled(const uint8_t* at) {
  for (int i = 0; i < kGuard; ++i) {
    if (at[i] != 0xff) return 0;
  }
  return 1;
}
static uint8_t* guarded(uint64_t size) {
  uint8_t* whole = allocate(size + 2 * kGuard);
  if (whole == 0) return 0;
  fill(whole, size + 2 * kGuard);
  return whole + kGuard;
}
static const uint8_t* next_part(const uint8_t** at, uint64_t size) {
  const uint8_t* const part = *at;
  *at += (size + 63) / 64 * 64;
  return part;
}

int main(void) {
  const uint8_t* const file = read_file("call.bin", 8);
  if (file == 0) return 2;
  const uint64_t* const header = (const uint64_t*)file;
  const uint64_t inputs = header[2], outputs = header[3], weights = header[4];
  const uint64_t* const sizes = header + 7;
  const void* given[kMost];
  void* made[kMost];
  if (inputs + weights > kMost || outputs > kMost) return 2;
  // Dims that are known at run time only; the code writes those of outputs.
  int64_t* const dims = header[6] > 0 ? (int64_t*)(uintptr_t)(sizes + inputs + outputs + weights) : 0;
  const uint8_t* at = file + (8 * (7 + inputs + outputs + weights + header[6]) + 63) / 64 * 64;
#ifdef ETIR_LINKED
  const entry_type entry = etir_native_entry;
#else
  const uint8_t* const image = next_part(&at, header[0]);
  uint8_t* const code = mmap(0, header[0], PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  for (uint64_t i = 0; i < header[0]; ++i) code[i] = image[i];
  __builtin___clear_cache((char*)code, (char*)code + header[0]);
  mprotect(code, header[0], PROT_READ | PROT_EXEC);
  const entry_type entry = (entry_type)(uintptr_t)(code + header[1]);
#endif
  for (uint64_t i = 0; i < inputs; ++i) given[i] = next_part(&at, sizes[i]);
  for (uint64_t i = 0; i < weights; ++i) given[inputs + i] = next_part(&at, sizes[inputs + outputs + i]);
  for (uint64_t i = 0; i < outputs; ++i) {
    made[i] = guarded(sizes[inputs + i]);
    if (made[i] == 0) return 4;
  }
  uint8_t* const arena = guarded(header[5]);
  if (arena == 0) return 4;
  struct etir_native_call call = {given, 0, given + inputs, arena, dims, 0, 0};
  if (dims != 0 && entry(&call) != 0) return 6;
  call.outputs = made;
  const int32_t status = entry(&call);
  if (status != 0) return 5;
  if (!is_filled(arena - kGuard) || !is_filled(arena + header[5])) return 3;
  for (uint64_t i = 0; i < outputs; ++i) {
    const uint8_t* const output = made[i];
    if (!is_filled(output - kGuard) || !is_filled(output + sizes[inputs + i])) return 3;
    write_out(output, sizes[inputs + i]);
  }
  return 0;
}
