// The C++ API in five lines: load a module, run a method, read its output.
//
//   hello model.pte        a method `forward` of one float32 tensor of shape [2, 3]
#include <cstdio>

#include "platform/host_module.h"

int main(int argc, char** argv) {
  using namespace etir::host;
  Status status;
  const float x[] = {1, 2, 3, 4, 5, 6};
  std::vector<Output> outputs;

  auto module = Module::open(argc > 1 ? argv[1] : "model.pte", &status);
  auto method = module == nullptr ? nullptr : module->load_method("forward", &status);
  if (method != nullptr) status = method->run({Input::tensor(x, {2, 3})}, &outputs);
  if (!status.ok()) return std::fprintf(stderr, "%s\n", status.message.c_str()), 1;
  for (size_t i = 0; i < outputs[0].nbytes / sizeof(float); ++i) std::printf("%g\n", outputs[0].values<float>()[i]);
}
