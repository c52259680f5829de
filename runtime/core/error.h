// Errors: a category that callers switch on, and a record that says exactly what happened.
//
// The runtime never throws and never prints by itself. Each failed check has a number of its own (core/checks.def) and
// leaves a record with the method, the instruction, the operator and two numbers of the check's; the record needs no
// strings and survives in the smallest build. `et-translate --decode-error` and the Python module turn it into a
// sentence, with the user's source line where the program's debug information is at hand.
#pragma once

#include <cstdint>

namespace etir {

/// What kind of thing went wrong. Numbers are stable: they leave the device.
enum class Error : uint32_t {
  Ok = 0x00,
  Internal = 0x01,
  InvalidState = 0x02,
  EndOfMethod = 0x03,
  NotSupported = 0x10,
  InvalidArgument = 0x12,
  InvalidType = 0x13,
  OperatorMissing = 0x14,
  NotFound = 0x20,
  MemoryAllocationFailed = 0x21,
  AccessFailed = 0x22,
  InvalidProgram = 0x23,
  InvalidExternalData = 0x24,
  OutOfResources = 0x25,
  DelegateInvalidCompatibility = 0x30,
  DelegateMemoryAllocationFailed = 0x31,
  DelegateInvalidHandle = 0x32,
};

/// Which check failed. The table is core/checks.def.
enum class Check : uint16_t {
  None = 0,
#define ETIR_CHECK(name, number, error, sentence) name = number,
#include "core/checks.def"
#undef ETIR_CHECK
};

namespace detail {
// Two arrays instead of a switch: half the code.
inline constexpr uint16_t kCheckNumbers[] = {
#define ETIR_CHECK(name, number, error, sentence) number,
#include "core/checks.def"
#undef ETIR_CHECK
};
inline constexpr uint8_t kCheckErrors[] = {
#define ETIR_CHECK(name, number, error, sentence) static_cast<uint8_t>(Error::error),
#include "core/checks.def"
#undef ETIR_CHECK
};
}  // namespace detail

/// The category of a check's failure.
constexpr Error error_of(Check check) {
  for (unsigned i = 0; i < sizeof(detail::kCheckErrors); ++i) {
    if (detail::kCheckNumbers[i] == static_cast<uint16_t>(check)) return static_cast<Error>(detail::kCheckErrors[i]);
  }
  return check == Check::None ? Error::Ok : Error::Internal;
}

/// What happened, where. Numbers that do not apply are -1; `a` and `b` are the numbers that the check's sentence names.
struct ErrorRecord {
  Check check = Check::None;
  int32_t method = -1;       ///< index of the method (execution plan) in the program
  int32_t instruction = -1;  ///< index of the instruction in the method
  int32_t op = -1;           ///< index in the method's table of operators
  int64_t a = -1;
  int64_t b = -1;

  /// The category; kept out of line, since its table is long.
  __attribute__((noinline)) Error error() const { return error_of(check); }
};

/// A value, or the error for which there is none. `T` must be default constructible and cheap to copy.
template <typename T>
class Result {
 public:
  Result(const T& value) : value_(value), error_(Error::Ok) {}                             // NOLINT: implicit by design
  Result(Error error) : value_(), error_(error == Error::Ok ? Error::Internal : error) {}  // NOLINT
  bool ok() const { return error_ == Error::Ok; }
  Error error() const { return error_; }
  /// The value; only when ok().
  const T& operator*() const { return value_; }
  const T* operator->() const { return &value_; }

 private:
  T value_;
  Error error_;
};

}  // namespace etir
