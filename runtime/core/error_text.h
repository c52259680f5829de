// Error records as text that a device prints, and the log of failed checks.
//
// A port that has any way to put out characters prints format_record()'s line; `et-translate --decode-error` turns it
// into a sentence with the file's names and the user's source line. Nothing here uses stdio, a heap or 64-bit division.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/error.h"
#include "core/value.h"

namespace etir {

/// Characters that format_record() writes at most, with the zero at the end.
constexpr size_t kRecordTextSize = 96;

/// Writes a record as one line without a line end:
///
///   etir-error CHECK METHOD INSTRUCTION OPERATOR A B
///
/// all of them decimal numbers, -1 for what does not apply. `text` has room for kRecordTextSize characters. Returns the
/// number of characters, without the zero.
size_t format_record(const ErrorRecord& record, char* text);

#ifdef ETIR_LOG
/// Hands the platform (platform/platform.h) one line: the record as format_record() writes it, and the check's
/// sentence. `op` and `overload` are the operator's name, empty where it is not known. The end of a method is no
/// failure.
void log_failure(const ErrorRecord& record, StringView op = {}, StringView overload = {});
#else
inline void log_failure(const ErrorRecord&, StringView = {}, StringView = {}) {}
#endif

}  // namespace etir
