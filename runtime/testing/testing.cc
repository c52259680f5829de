#include "testing/testing.h"

#include <cstdio>
#include <cstring>
#include <vector>

namespace etir {
namespace testing {

namespace {

struct Test {
  const char* file;
  const char* name;
  Function function;
};

std::vector<Test>& tests() {
  static std::vector<Test> all;
  return all;
}

int failures = 0;

}  // namespace

Registration::Registration(const char* file, const char* name, Function function) {
  const char* slash = std::strrchr(file, '/');
  tests().push_back({slash == nullptr ? file : slash + 1, name, function});
}

void report(const char* file, int line, const std::string& what) {
  // One broken loop should not fill the screen.
  if (++failures <= 50) std::fprintf(stderr, "%s:%d: %s\n", file, line, what.c_str());
}

}  // namespace testing
}  // namespace etir

int main(int argc, char** argv) {
  int ran = 0;
  for (const auto& test : etir::testing::tests()) {
    const std::string name = std::string(test.file) + ":" + test.name;
    if (argc > 1 && name.find(argv[1]) == std::string::npos) continue;
    const int before = etir::testing::failures;
    test.function();
    ++ran;
    if (etir::testing::failures != before) std::fprintf(stderr, "failed: %s\n", name.c_str());
  }
  std::printf("%d tests, %d failures\n", ran, etir::testing::failures);
  return ran == 0 || etir::testing::failures > 0 ? 1 : 0;
}
