// Two threads call two methods of one program that share state, and a third loads methods: run under
// -DETIR_SANITIZE=thread.
//
//   host_module_test model.pte calls
//
// The program has the methods `write`, which adds its input (two floats) to the state and returns it, and `read`, which
// returns the state plus its input.
#include "platform/host_module.h"

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

using namespace etir::host;

namespace {

void check(bool condition, const char* what, const Status& status = {}) {
  if (condition) return;
  std::fprintf(stderr, "failed: %s %s\n", what, status.message.c_str());
  std::exit(1);
}

std::vector<float> call(Method& method, float value) {
  const float x[] = {value, value};
  std::vector<Output> outputs;
  const Status status = method.run({Input::tensor(x, {2})}, &outputs);
  check(status.ok(), "run", status);
  const float* y = outputs.back().values<float>();
  return {y[0], y[1]};
}

}  // namespace

int main(int argc, char** argv) {
  check(argc == 3, "arguments");
  const int calls = std::atoi(argv[2]);
  Status status;
  const auto module = Module::open(argv[1], &status);
  check(module != nullptr, "open", status);
  const auto write = module->load_method("write", &status);
  const auto read = module->load_method("read", &status);
  check(write != nullptr && read != nullptr, "load", status);
  const std::vector<float> start = call(*read, 0);
  std::atomic<bool> done{false};
  std::thread writer([&] {
    for (int i = 0; i < calls; ++i) call(*write, 1);
    done = true;
  });
  std::thread reader([&] {
    float last = 0;
    while (!done) {
      const std::vector<float> now = call(*read, 0);
      check(now[0] - start[0] == now[1] - start[1], "a run was seen half done");
      check(now[0] >= last, "the state went backwards");
      last = now[0];
    }
  });
  std::thread loader([&] {
    for (int i = 0; i < 20; ++i) {
      Status own;
      const auto method = module->load_method("read", &own);
      check(method != nullptr, "load while running", own);
      call(*method, 1);
    }
  });
  writer.join();
  reader.join();
  loader.join();
  check(call(*read, 0)[0] == start[0] + static_cast<float>(calls), "every call counts");
  std::puts("ok");
}
