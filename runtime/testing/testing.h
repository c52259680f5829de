// Tests in C++: a function for each test, checks that print what failed and go on, and one main for all of them.
//
//   ETIR_TEST(half_rounds_to_even) { CHECK_EQ(Half(1.0f).bits, 0x3c00); }
//
// Test files (x_test.cc, beside x.cc) are linked into one program, which runs all tests, or those whose names hold its
// argument. It prints each failure and ends with 1 when there was one.
#pragma once

#include <cstdint>
#include <sstream>
#include <string>

#include "core/error.h"

namespace etir {
namespace testing {

using Function = void (*)();

/// Adds a test to those that main runs.
struct Registration {
  Registration(const char* file, const char* name, Function function);
};

/// Reports a failed check.
void report(const char* file, int line, const std::string& what);

template <typename T>
std::string show(const T& value) {
  std::ostringstream text;
  if constexpr (std::is_enum_v<T>) {
    text << static_cast<int64_t>(value);
  } else if constexpr (sizeof(T) == 1) {
    text << static_cast<int>(value);
  } else {
    text << value;
  }
  return text.str();
}

template <typename A, typename B>
void check_equal(const A& a, const B& b, const char* a_text, const char* b_text, const char* file, int line) {
  if (a == b) return;
  report(file, line, std::string(a_text) + " is " + show(a) + ", expected " + b_text + ", " + show(b));
}

}  // namespace testing
}  // namespace etir

#define ETIR_TEST(name)                                                                         \
  static void test_##name();                                                                    \
  static const ::etir::testing::Registration registration_##name(__FILE__, #name, test_##name); \
  static void test_##name()

#define CHECK(condition)                                                                    \
  do {                                                                                      \
    if (!(condition)) ::etir::testing::report(__FILE__, __LINE__, "not true: " #condition); \
  } while (false)

#define CHECK_EQ(a, b) ::etir::testing::check_equal(a, b, #a, #b, __FILE__, __LINE__)
