#include "core/error_text.h"

#include <cstring>
#include <string>

#include "testing/testing.h"

namespace etir {
namespace {

std::string text_of(Check check, int32_t method, int32_t instruction, int32_t op, int64_t a, int64_t b) {
  char text[kRecordTextSize + 1];
  std::memset(text, '#', sizeof(text));
  const size_t size = format_record(ErrorRecord{check, method, instruction, op, a, b}, text);
  CHECK_EQ(size, std::strlen(text));
  CHECK(size < kRecordTextSize);
  CHECK_EQ(text[kRecordTextSize], '#');
  return text;
}

ETIR_TEST(records_are_six_decimal_numbers) {
  CHECK_EQ(text_of(Check::KernelShape, 0, 12, 3, 1, 7), "etir-error 602 0 12 3 1 7");
  CHECK_EQ(text_of(Check::None, -1, -1, -1, -1, -1), "etir-error 0 -1 -1 -1 -1 -1");
}

ETIR_TEST(the_longest_record_fits) {
  CHECK_EQ(text_of(static_cast<Check>(UINT16_MAX), INT32_MIN, INT32_MIN, INT32_MIN, INT64_MIN, INT64_MIN),
           "etir-error 65535 -2147483648 -2147483648 -2147483648 -9223372036854775808 -9223372036854775808");
}

// Numbers are divided in parts: each carry between them is one of these.
ETIR_TEST(numbers_are_those_of_the_standard_library) {
  for (int shift = 0; shift < 63; ++shift) {
    for (const int64_t offset : {-10, -9, -1, 0, 1, 9}) {
      const int64_t number = (int64_t{1} << shift) + offset;
      CHECK_EQ(text_of(Check::KernelTemp, 0, 0, 0, number, -number),
               "etir-error 611 0 0 0 " + std::to_string(number) + " " + std::to_string(-number));
    }
  }
  CHECK_EQ(text_of(Check::None, 0, 0, 0, INT64_MAX, 0), "etir-error 0 0 0 0 9223372036854775807 0");
}

}  // namespace
}  // namespace etir
