// The tables of the two file formats, as the walker in core/flatbuffer_reader.h needs them.
//
// Each table is a run of fields in the order of their slots; a union takes two. Tables that a union can hold follow
// each other, in the order of its types.
#pragma once

#include <cstdint>

namespace etir {
namespace flat {

/// Names of the tables. The enumerators up to kNumTables index kTables.
enum TableId : uint8_t {
  kProgram,
  kExecutionPlan,
  kContainerMetadata,
  kBufferDevice,
  kEValue,
  // KernelTypes, in the order of the union
  kNull,
  kInt,
  kBool,
  kDouble,
  kTensor,
  kString,
  kIntList,
  kDoubleList,
  kBoolList,
  kTensorList,
  kOptionalTensorList,
  kAllocation,
  kExtraTensorInfo,
  kOperator,
  kDelegate,
  kDelegateReference,
  kCompileSpec,
  kChain,
  kInstruction,
  // InstructionArguments, in the order of the union
  kKernelCall,
  kDelegateCall,
  kMoveCall,
  kJumpFalseCall,
  kFreeCall,
  kFrame,
  kFrameList,
  kBuffer,
  kInlineData,
  kDataSegment,
  kSubsegmentOffsets,
  kNamedData,
  kFlatTensor,
  kFlatTensorEntry,
  kFlatTensorLayout,
  kNumTables,
};

enum FieldKind : uint8_t {
  kScalar1,
  kScalar4,
  kScalar8,
  kVector1,  ///< vector of items of 1 byte; strings too
  kVector4,
  kVector8,
  kTables,  ///< vector of tables
  kOneTable,
  kUnion,  ///< the type's slot; its offset is in the next, which has kind kUnionValue
  kUnionValue,
};
constexpr uint8_t kKindMask = 15;
constexpr uint8_t kRequired = 16;

/// One field: its kind and whether it is required; the table that it leads to, or, for a union, the first of its
/// tables.
struct FieldSchema {
  uint8_t kind;
  uint8_t table;
};

constexpr uint8_t kKernelTypes = 11;
constexpr uint8_t kInstructionTypes = 5;

constexpr FieldSchema kFields[] = {
    // Program
    {kScalar4, 0},
    {kTables | kRequired, kExecutionPlan},
    {kTables, kBuffer},
    {kTables, kInlineData},
    {kTables, kDataSegment},
    {kOneTable, kSubsegmentOffsets},
    {kTables, kSubsegmentOffsets},
    {kTables, kNamedData},
    // ExecutionPlan
    {kVector1 | kRequired, 0},
    {kOneTable, kContainerMetadata},
    {kTables | kRequired, kEValue},
    {kVector4 | kRequired, 0},
    {kVector4 | kRequired, 0},
    {kTables | kRequired, kChain},
    {kTables, kOperator},
    {kTables, kDelegate},
    {kVector8 | kRequired, 0},
    {kTables, kBufferDevice},
    // ContainerMetadata
    {kVector1, 0},
    {kVector1, 0},
    // NonConstBufferDevice
    {kScalar4, 0},
    {kScalar1, 0},
    {kScalar1, 0},
    // EValue
    {kUnion | kRequired, kNull},
    {kUnionValue, kKernelTypes},
    // Int, Bool, Double
    {kScalar8, 0},
    {kScalar1, 0},
    {kScalar8, 0},
    // Tensor
    {kScalar1, 0},
    {kScalar4, 0},
    {kVector4 | kRequired, 0},
    {kVector1 | kRequired, 0},
    {kScalar1, 0},
    {kScalar4, 0},
    {kOneTable, kAllocation},
    {kScalar1, 0},
    {kScalar1, 0},
    {kOneTable, kExtraTensorInfo},
    // String, IntList, DoubleList, BoolList, TensorList, OptionalTensorList
    {kVector1 | kRequired, 0},
    {kVector8 | kRequired, 0},
    {kVector8 | kRequired, 0},
    {kVector1 | kRequired, 0},
    {kVector4 | kRequired, 0},
    {kVector4 | kRequired, 0},
    // AllocationDetails
    {kScalar4, 0},
    {kScalar4, 0},
    {kScalar4, 0},
    // ExtraTensorInfo
    {kScalar8, 0},
    {kVector1, 0},
    {kScalar1, 0},
    {kScalar1, 0},
    {kScalar1, 0},
    // Operator
    {kVector1 | kRequired, 0},
    {kVector1, 0},
    // BackendDelegate
    {kVector1 | kRequired, 0},
    {kOneTable | kRequired, kDelegateReference},
    {kTables, kCompileSpec},
    // BackendDelegateDataReference
    {kScalar1, 0},
    {kScalar4, 0},
    // CompileSpec
    {kVector1 | kRequired, 0},
    {kVector1, 0},
    // Chain
    {kVector4, 0},
    {kVector4, 0},
    {kTables | kRequired, kInstruction},
    {kTables, kFrameList},
    // Instruction
    {kUnion | kRequired, kKernelCall},
    {kUnionValue, kInstructionTypes},
    // KernelCall, DelegateCall, MoveCall, JumpFalseCall, FreeCall
    {kScalar4, 0},
    {kVector4 | kRequired, 0},
    {kScalar4, 0},
    {kVector4 | kRequired, 0},
    {kScalar4, 0},
    {kScalar4, 0},
    {kScalar4, 0},
    {kScalar4, 0},
    {kScalar4, 0},
    // Frame
    {kVector1, 0},
    {kScalar4, 0},
    {kVector1, 0},
    {kVector1, 0},
    // FrameList
    {kTables, kFrame},
    // Buffer, BackendDelegateInlineData
    {kVector1, 0},
    {kVector1, 0},
    // DataSegment
    {kScalar8, 0},
    {kScalar8, 0},
    // SubsegmentOffsets
    {kScalar4, 0},
    {kVector8, 0},
    // NamedData
    {kVector1 | kRequired, 0},
    {kScalar4, 0},
    // FlatTensor
    {kScalar4, 0},
    {kTables, kDataSegment},
    {kTables, kFlatTensorEntry},
    // FlatTensor's NamedData
    {kVector1 | kRequired, 0},
    {kScalar4, 0},
    {kOneTable, kFlatTensorLayout},
    // TensorLayout
    {kScalar1, 0},
    {kVector4 | kRequired, 0},
    {kVector1 | kRequired, 0},
};

/// Number of fields of each table.
constexpr uint8_t kFieldCounts[kNumTables] = {8, 10, 2, 3, 2, 0, 1, 1, 1, 10, 1, 1, 1, 1, 1, 1, 3, 5, 2, 3,
                                              2, 2,  4, 2, 2, 2, 2, 2, 1, 4,  1, 1, 1, 2, 2, 2, 3, 3, 3};

}  // namespace flat
}  // namespace etir
