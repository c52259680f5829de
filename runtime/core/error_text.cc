#include "core/error_text.h"

#ifdef ETIR_LOG
#include "core/log.h"
#endif

namespace etir {

namespace {

// Appends to a buffer of a fixed size; what does not fit is left out.
struct Text {
  char* at;
  char* end;

  void put(char c) {
    if (at < end) *at++ = c;
  }
  void put(const char* text, size_t size) {
    for (size_t i = 0; i < size; ++i) put(text[i]);
  }
  void put(int64_t value);
};

// 64-bit division is a library call on small machines: the number is divided in parts of 16 bits instead.
void Text::put(int64_t value) {
  uint64_t rest = static_cast<uint64_t>(value);
  if (value < 0) {
    put('-');
    rest = 0 - rest;
  }
  char digits[20];
  int count = 0;
  do {
    uint64_t quotient = 0;
    uint32_t remainder = 0;
    for (int shift = 48; shift >= 0; shift -= 16) {
      const uint32_t part = remainder << 16 | (static_cast<uint32_t>(rest >> shift) & 0xffffu);
      quotient = quotient << 16 | part / 10;
      remainder = part % 10;
    }
    digits[count++] = static_cast<char>('0' + remainder);
    rest = quotient;
  } while (rest != 0);
  while (count > 0) put(digits[--count]);
}

void put_record(Text& text, const ErrorRecord& record) {
  text.put("etir-error", 10);
  const int64_t numbers[] = {
      static_cast<int64_t>(record.check), record.method, record.instruction, record.op, record.a, record.b};
  for (const int64_t number : numbers) {
    text.put(' ');
    text.put(number);
  }
}

}  // namespace

size_t format_record(const ErrorRecord& record, char* text) {
  Text line{text, text + kRecordTextSize - 1};
  put_record(line, record);
  *line.at = '\0';
  return static_cast<size_t>(line.at - text);
}

#ifdef ETIR_LOG

namespace {

const char* sentence_of(Check check) {
  switch (check) {
    case Check::None:
      break;
#define ETIR_CHECK(name, number, error, sentence) \
  case Check::name:                               \
    return sentence;
#include "core/checks.def"
#undef ETIR_CHECK
  }
  return "";
}

bool starts_with(const char* text, const char* start) {
  while (*start != '\0') {
    if (*text++ != *start++) return false;
  }
  return true;
}

}  // namespace

void log_failure(const ErrorRecord& record, StringView op, StringView overload) {
  if (record.check == Check::None || record.check == Check::MethodAtEnd) return;
  char line[kRecordTextSize + 256];
  Text text{line, line + sizeof(line)};
  put_record(text, record);
  text.put(' ');
  for (const char* at = sentence_of(record.check); *at != '\0';) {
    if (starts_with(at, "{a}")) {
      text.put(record.a);
      at += 3;
    } else if (starts_with(at, "{b}")) {
      text.put(record.b);
      at += 3;
    } else if (starts_with(at, "{op}")) {
      if (op.size == 0) {
        text.put("operator ", 9);
        text.put(int64_t{record.op});
      }
      text.put(op.data, op.size);
      if (overload.size > 0) text.put('.');
      text.put(overload.data, overload.size);
      at += 4;
    } else {
      text.put(*at++);
    }
  }
  etir_platform_log(line, static_cast<size_t>(text.at - line));
}

#endif

}  // namespace etir
