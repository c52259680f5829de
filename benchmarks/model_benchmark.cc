// Runs a method that nobody watches, on inputs of zeros: the least processor time of a run.
//
//   model_benchmark model.pte [runs]
//
// For cores with and without recording (benchmarks/not_asked.py).
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <vector>

#include "platform/host_module.h"

namespace {

double now() {
  timespec time;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) * 1e9 + static_cast<double>(time.tv_nsec);
}

}  // namespace

int main(int argc, char** argv) {
  using namespace etir::host;
  if (argc < 2) return 2;
  Status status;
  auto module = Module::open(argv[1], &status);
  auto method = module == nullptr ? nullptr : module->load_method("forward", &status);
  if (method == nullptr) return std::fprintf(stderr, "%s\n", status.message.c_str()), 1;
  const etir::MethodMeta meta = method->meta();
  std::vector<Input> inputs(meta.num_inputs());
  std::vector<std::vector<char>> zeros(inputs.size());
  for (uint32_t i = 0; i < inputs.size(); ++i) {
    if (meta.input_tag(i) != etir::Tag::Tensor) return std::fprintf(stderr, "input %u is no tensor\n", i), 1;
    const etir::TensorInfo info = meta.input_tensor(i);
    inputs[i].tag = etir::Tag::Tensor;
    inputs[i].dtype = info.dtype;
    inputs[i].rank = info.rank;
    std::copy(info.sizes, info.sizes + info.rank, inputs[i].sizes);
    for (uint8_t d = 0; d < info.rank; ++d) inputs[i].order[d] = d;
    zeros[i].resize(info.nbytes + 1);
    inputs[i].data = zeros[i].data();
  }
  std::vector<Output> outputs;
  const int runs = argc > 2 ? std::atoi(argv[2]) : 20;
  double least = 1e18;
  for (int run = 0; run < runs && status.ok(); ++run) {
    const double start = now();
    status = method->run(inputs, &outputs);
    least = std::min(least, now() - start);
  }
  if (!status.ok()) return std::fprintf(stderr, "%s\n", status.message.c_str()), 1;
  std::printf("%.0f ns a run\n", least);
}
