// Measures the executor alone: method memory and load time per instruction, and time per instruction of kernels that do
// nothing, without and with a recorder, and with values. Every operator that the file names is replaced by an empty
// kernel that takes whatever it is given.
//
//   executor_benchmark chain.pte [rounds]
//
// Built with -DRECORDED=0 it records nothing, for cores with and without that (benchmarks/not_asked.py).
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "executor/method.h"
#include "platform/mmap_data_loader.h"
#ifndef RECORDED
#define RECORDED 1
#endif
#if RECORDED
#include "devtools/recording.h"
#endif

namespace {

using namespace etir;

double now() {
  return std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

constexpr Kernel kEmpty[] = {{"aten::add.out", [](KernelContext&) {}, "TTN>T", 0x8}};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2 && argc != 3) return 1;
  const int rounds = argc == 3 ? std::atoi(argv[2]) : 200;
  MmapDataLoader loader;
  if (!loader.open(argv[1])) return 1;
  double load_program = 1e18, load_method = 1e18, execute = 1e18;
#if RECORDED
  double recorded = 1e18, logged = 1e18, copied = 1e18;
#endif
  uint64_t memory_size = 0, instructions = 0;
  for (int round = 0; round < rounds; ++round) {
    double start = now();
    Program program;
    if (program.load(loader) != Error::Ok) return 2;
    load_program = std::min(load_program, now() - start);
    const MethodMeta meta = program.method_meta(0u);
    memory_size = meta.method_memory_size();
    instructions = meta.num_instructions();
    std::vector<uint64_t> memory(memory_size / 8 + 1);
    std::vector<std::vector<uint64_t>> buffers;
    std::vector<PlannedBuffer> planned;
    for (uint32_t i = 0; i < meta.num_planned_buffers(); ++i) {
      buffers.emplace_back(meta.planned_buffer_size(i) / 8 + 1);
      planned.push_back({buffers.back().data(), meta.planned_buffer_size(i)});
    }
    MethodMemory all;
    all.method.base = reinterpret_cast<uint8_t*>(memory.data());
    all.method.size = memory.size() * 8;
    all.planned = {planned.data(), planned.size()};
    const KernelTable table{kEmpty, 1};
    MethodOptions options;
    options.kernels = {&table, 1};
    start = now();
    Method method;
    if (method.load(program, 0, all, options) != Error::Ok) return 3;
    load_method = std::min(load_method, now() - start);
    for (uint32_t i = 0; i < meta.num_inputs(); ++i) {
      const TensorInfo info = meta.input_tensor(i);
      std::vector<uint64_t> data(info.nbytes / 8 + 1);
      if (method.set_input(i, TensorInput{data.data(), info.dtype, info.rank, info.sizes, info.dim_order}) != Error::Ok)
        return 4;
    }
    start = now();
    if (method.execute() != Error::Ok) return 5;
    execute = std::min(execute, now() - start);
#if RECORDED
    // Into memory that has been touched.
    for (const bool values : {false, true}) {
      host::RecordingOptions wanted;
      wanted.most_records = 16 * (meta.num_instructions() + 16);
      wanted.values = values;
      host::Recording recording(wanted);
      double best = 1e18;
      for (int again = 0; again < 3; ++again) {
        recording.recorder().clear();
        method.watch(recording.recorder().sink());
        start = now();
        if (method.execute() != Error::Ok) return 6;
        best = std::min(best, now() - start);
        method.watch({});
      }
      (values ? logged : recorded) = std::min(values ? logged : recorded, best);
      if (recording.values().empty()) continue;
      // What the bytes of the values take without anything else, into memory that has not been touched, as there.
      const size_t bytes = recording.num_value_bytes(), each = bytes / recording.values().size();
      host::Recording other(wanted);
      uint8_t* to = const_cast<uint8_t*>(other.value_bytes());
      start = now();
      for (size_t i = 0; i + each <= bytes; i += each) std::memcpy(to + i, recording.value_bytes() + i, each);
      copied = std::min(copied, (now() - start) / 3);
    }
#endif
  }
  const double n = static_cast<double>(instructions);
  std::printf(
      "%llu instructions: %.1f B of method memory each, load program %.1f us, load method %.1f us, %.1f ns each",
      static_cast<unsigned long long>(instructions), static_cast<double>(memory_size) / n, load_program / 1e3,
      load_method / 1e3, execute / n);
#if RECORDED
  std::printf("; recorded %.1f ns each, with values %.1f ns each, of which copies %.1f ns", recorded / n, logged / n,
              copied / n);
#endif
  std::printf("\n");
  return 0;
}
