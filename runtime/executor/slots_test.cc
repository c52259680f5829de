// The slots that the executor reads are those of the schema that the file was checked against.
#include "executor/slots.h"

#include "core/flatbuffer_schema.h"
#include "testing/testing.h"

namespace etir {
namespace {

uint8_t kind_of(uint8_t table, uint8_t slot) {
  int start = 0;
  for (int i = 0; i < table; ++i) start += flat::kFieldCounts[i];
  CHECK(slot < flat::kFieldCounts[table]);
  return flat::kFields[start + slot].kind & flat::kKindMask;
}

ETIR_TEST(slots_have_the_kinds_that_are_read) {
  using namespace flat;
  CHECK_EQ(kind_of(kProgram, slot::kVersion), kScalar4);
  CHECK_EQ(kind_of(kProgram, slot::kPlans), kTables);
  CHECK_EQ(kind_of(kProgram, slot::kInlineDelegateData), kTables);
  CHECK_EQ(kind_of(kProgram, slot::kSegments), kTables);
  CHECK_EQ(kind_of(kProgram, slot::kConstantSegment), kOneTable);
  CHECK_EQ(kind_of(kProgram, slot::kMutableSegments), kTables);
  CHECK_EQ(kind_of(kProgram, slot::kProgramNamedData), kTables);
  CHECK_EQ(kind_of(kExecutionPlan, slot::kName), kVector1);
  CHECK_EQ(kind_of(kExecutionPlan, slot::kContainers), kOneTable);
  CHECK_EQ(kind_of(kExecutionPlan, slot::kValues), kTables);
  CHECK_EQ(kind_of(kExecutionPlan, slot::kInputs), kVector4);
  CHECK_EQ(kind_of(kExecutionPlan, slot::kOutputs), kVector4);
  CHECK_EQ(kind_of(kExecutionPlan, slot::kChains), kTables);
  CHECK_EQ(kind_of(kExecutionPlan, slot::kOperators), kTables);
  CHECK_EQ(kind_of(kExecutionPlan, slot::kDelegates), kTables);
  CHECK_EQ(kind_of(kExecutionPlan, slot::kBufferSizes), kVector8);
  CHECK_EQ(kind_of(kExecutionPlan, slot::kBufferDevices), kTables);
  CHECK_EQ(kind_of(kEValue, slot::kValueType), kUnion);
  CHECK_EQ(kind_of(kEValue, slot::kValueTable), kUnionValue);
  CHECK_EQ(kind_of(kTensor, slot::kDtype), kScalar1);
  CHECK_EQ(kind_of(kTensor, slot::kStorageOffset), kScalar4);
  CHECK_EQ(kind_of(kTensor, slot::kSizes), kVector4);
  CHECK_EQ(kind_of(kTensor, slot::kDimOrder), kVector1);
  CHECK_EQ(kind_of(kTensor, slot::kDataIndex), kScalar4);
  CHECK_EQ(kind_of(kTensor, slot::kAllocationInfo), kOneTable);
  CHECK_EQ(kind_of(kTensor, slot::kLayout), kScalar1);
  CHECK_EQ(kind_of(kTensor, slot::kDynamism), kScalar1);
  CHECK_EQ(kind_of(kTensor, slot::kExtraInfo), kOneTable);
  for (const uint8_t at : {slot::kMemoryId, slot::kOffsetLow, slot::kOffsetHigh}) {
    CHECK_EQ(kind_of(kAllocation, at), kScalar4);
  }
  CHECK_EQ(kind_of(kExtraTensorInfo, slot::kQualifiedName), kVector1);
  CHECK_EQ(kind_of(kExtraTensorInfo, slot::kLocation), kScalar1);
  CHECK_EQ(kind_of(kExtraTensorInfo, slot::kDeviceType), kScalar1);
  CHECK_EQ(kind_of(kDelegate, slot::kDelegateId), kVector1);
  CHECK_EQ(kind_of(kDelegate, slot::kProcessed), kOneTable);
  CHECK_EQ(kind_of(kDelegate, slot::kSpecs), kTables);
  CHECK_EQ(kind_of(kDelegateReference, slot::kReferenceLocation), kScalar1);
  CHECK_EQ(kind_of(kDelegateReference, slot::kReferenceIndex), kScalar4);
  CHECK_EQ(kind_of(kChain, slot::kInstructions), kTables);
  CHECK_EQ(kind_of(kInstruction, slot::kInstructionType), kUnion);
  CHECK_EQ(kind_of(kInstruction, slot::kInstructionTable), kUnionValue);
  CHECK_EQ(kind_of(kDataSegment, slot::kSegmentOffset), kScalar8);
  CHECK_EQ(kind_of(kDataSegment, slot::kSegmentSize), kScalar8);
  for (const uint8_t table : {kNamedData, kFlatTensorEntry}) {
    CHECK_EQ(kind_of(table, slot::kKey), kVector1);
    CHECK_EQ(kind_of(table, slot::kNamedSegment), kScalar4);
  }
  CHECK_EQ(kind_of(kFlatTensorEntry, slot::kTensorLayout), kOneTable);
}

// The union's types are numbered from 1, in the order of the tables.
ETIR_TEST(instruction_types_are_those_of_the_union) {
  CHECK_EQ(flat::kKernelCall + static_cast<int>(InstructionType::FreeCall) - 1, static_cast<int>(flat::kFreeCall));
  CHECK_EQ(flat::kKernelCall + static_cast<int>(InstructionType::MoveCall) - 1, static_cast<int>(flat::kMoveCall));
  CHECK_EQ(static_cast<int>(flat::kInstructionTypes), static_cast<int>(InstructionType::FreeCall));
}

}  // namespace
}  // namespace etir
