#include "platform/describe.h"

namespace etir {

namespace {

void replace(std::string* text, const std::string& what, const std::string& with) {
  for (size_t at = text->find(what); at != std::string::npos; at = text->find(what, at + with.size())) {
    text->replace(at, what.size(), with);
  }
}

/// Fills in `{a}` or `{b}`: a number, or the name that it stands for when the sentence says "dtype {a}" or "kind {a}".
void fill(std::string* text, const std::string& place, int64_t value) {
  const bool small = value >= 0 && value <= UINT8_MAX;
  if (small) {
    replace(text, "dtype " + place, std::string("dtype ") + dtype_name(static_cast<ScalarType>(value)));
    replace(text, "kind " + place, std::string("kind ") + kind_name(static_cast<Tag>(value)));
  }
  replace(text, place, std::to_string(value));
}

}  // namespace

const char* check_name(Check check) {
  switch (check) {
    case Check::None:
      return "None";
#define ETIR_CHECK(name, number, error, sentence) \
  case Check::name:                               \
    return #name;
#include "core/checks.def"
#undef ETIR_CHECK
  }
  return "?";
}

const char* error_name(Error error) {
  switch (error) {
#define ETIR_ERROR(name) \
  case Error::name:      \
    return #name;
    ETIR_ERROR(Ok)
    ETIR_ERROR(Internal)
    ETIR_ERROR(InvalidState)
    ETIR_ERROR(EndOfMethod)
    ETIR_ERROR(NotSupported)
    ETIR_ERROR(InvalidArgument)
    ETIR_ERROR(InvalidType)
    ETIR_ERROR(OperatorMissing)
    ETIR_ERROR(NotFound)
    ETIR_ERROR(MemoryAllocationFailed)
    ETIR_ERROR(AccessFailed)
    ETIR_ERROR(InvalidProgram)
    ETIR_ERROR(InvalidExternalData)
    ETIR_ERROR(OutOfResources)
    ETIR_ERROR(DelegateInvalidCompatibility)
    ETIR_ERROR(DelegateMemoryAllocationFailed)
    ETIR_ERROR(DelegateInvalidHandle)
#undef ETIR_ERROR
  }
  return "?";
}

const char* dtype_name(ScalarType dtype) {
  switch (dtype) {
    case ScalarType::Byte:
      return "uint8";
    case ScalarType::Char:
      return "int8";
    case ScalarType::Short:
      return "int16";
    case ScalarType::Int:
      return "int32";
    case ScalarType::Long:
      return "int64";
    case ScalarType::Half:
      return "float16";
    case ScalarType::Float:
      return "float32";
    case ScalarType::Double:
      return "float64";
    case ScalarType::ComplexHalf:
      return "complex32";
    case ScalarType::ComplexFloat:
      return "complex64";
    case ScalarType::ComplexDouble:
      return "complex128";
    case ScalarType::Bool:
      return "bool";
    case ScalarType::QInt8:
      return "qint8";
    case ScalarType::QUInt8:
      return "quint8";
    case ScalarType::QInt32:
      return "qint32";
    case ScalarType::BFloat16:
      return "bfloat16";
    case ScalarType::QUInt4x2:
      return "quint4x2";
    case ScalarType::QUInt2x4:
      return "quint2x4";
    case ScalarType::Bits16:
      return "bits16";
    case ScalarType::Float8E5M2:
      return "float8_e5m2";
    case ScalarType::Float8E4M3FN:
      return "float8_e4m3fn";
    case ScalarType::Float8E5M2FNUZ:
      return "float8_e5m2fnuz";
    case ScalarType::Float8E4M3FNUZ:
      return "float8_e4m3fnuz";
    case ScalarType::UInt16:
      return "uint16";
    case ScalarType::UInt32:
      return "uint32";
    case ScalarType::UInt64:
      return "uint64";
  }
  return "?";
}

const char* kind_name(Tag tag) {
  switch (tag) {
    case Tag::None:
      return "none";
    case Tag::Int:
      return "int";
    case Tag::Bool:
      return "bool";
    case Tag::Double:
      return "float";
    case Tag::Tensor:
      return "tensor";
    case Tag::String:
      return "str";
    case Tag::IntList:
      return "list of ints";
    case Tag::DoubleList:
      return "list of floats";
    case Tag::BoolList:
      return "list of bools";
    case Tag::TensorList:
      return "list of tensors";
    case Tag::OptionalTensorList:
      return "list of optional tensors";
  }
  return "?";
}

std::string describe(const ErrorRecord& record, const std::string& op) {
  const char* sentence = "no check failed";
  switch (record.check) {
    case Check::None:
      break;
#define ETIR_CHECK(name, number, error, text) \
  case Check::name:                           \
    sentence = text;                          \
    break;
#include "core/checks.def"
#undef ETIR_CHECK
  }
  std::string text = sentence;
  fill(&text, "{a}", record.a);
  fill(&text, "{b}", record.b);
  replace(&text, "{method}", std::to_string(record.method));
  replace(&text, "{instruction}", std::to_string(record.instruction));
  // Last, because the name comes from the file and may hold anything.
  replace(&text, "{op}", op.empty() ? "operator " + std::to_string(record.op) : op);
  return text;
}

bool names_delegate(Check check) {
  switch (check) {
    case Check::BackendMissing:
    case Check::BackendUnavailable:
    case Check::BackendInit:
    case Check::BackendExecute:
    case Check::BackendData:
    case Check::BackendMemory:
    case Check::NativeMissing:
    case Check::ExternalDelegate:
      return true;
    default:
      return false;
  }
}

}  // namespace etir
