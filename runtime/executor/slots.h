// Slots of the fields that the executor reads, by table.
#pragma once

#include <cstdint>

namespace etir {
namespace slot {

enum Program : uint8_t {
  kVersion = 0,
  kPlans = 1,
  kInlineDelegateData = 3,
  kSegments = 4,
  kConstantSegment = 5,
  kMutableSegments = 6,
  kProgramNamedData = 7,
};
enum Plan : uint8_t {
  kName = 0,
  kContainers = 1,
  kValues = 2,
  kInputs = 3,
  kOutputs = 4,
  kChains = 5,
  kOperators = 6,
  kDelegates = 7,
  kBufferSizes = 8,
  kBufferDevices = 9,
};
enum Value : uint8_t { kValueType = 0, kValueTable = 1 };
enum Tensor : uint8_t {
  kDtype = 0,
  kStorageOffset = 1,
  kSizes = 2,
  kDimOrder = 3,
  kDataIndex = 5,
  kAllocationInfo = 6,
  kLayout = 7,
  kDynamism = 8,
  kExtraInfo = 9,
};
enum Allocation : uint8_t { kMemoryId = 0, kOffsetLow = 1, kOffsetHigh = 2 };
enum Extra : uint8_t { kQualifiedName = 1, kLocation = 2, kDeviceType = 3 };
enum Delegate : uint8_t { kDelegateId = 0, kProcessed = 1, kSpecs = 2 };
enum Reference : uint8_t { kReferenceLocation = 0, kReferenceIndex = 1 };
enum Chain : uint8_t { kInstructions = 2 };
enum Instruction : uint8_t { kInstructionType = 0, kInstructionTable = 1 };
enum Segment : uint8_t { kSegmentOffset = 0, kSegmentSize = 1 };
enum Named : uint8_t { kKey = 0, kNamedSegment = 1, kTensorLayout = 2 };

}  // namespace slot

/// Types of the InstructionArguments union.
enum class InstructionType : uint8_t {
  KernelCall = 1,     // operator, arguments
  DelegateCall = 2,   // delegate, arguments
  MoveCall = 3,       // from, to
  JumpFalseCall = 4,  // condition, destination
  FreeCall = 5,       // value
};

/// Where a tensor's data come from.
constexpr uint8_t kLocationExternal = 1;

}  // namespace etir
