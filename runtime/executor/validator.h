// The checks of what a program's tables mean, after core/flatbuffer_reader.h has checked that they can be read.
#pragma once

#include "core/flatbuffer_reader.h"
#include "executor/program.h"

namespace etir {

/// Checks every method of a program. The record gets the first failure.
class Program::Validator {
 public:
  Validator(const Program& program, flat::Checker& checker, ErrorRecord& error)
      : program_(program), checker_(checker), error_(error) {}

  bool check_plan(uint32_t index);

 private:
  bool fail(Check check, int64_t a, int64_t b = -1);
  bool check_buffers();
  bool check_value(uint32_t index);
  bool check_tensor(uint32_t index, const flat::Table& tensor);
  bool check_data(uint32_t index, const flat::Table& tensor, uint64_t nbytes, uint32_t alignment);
  bool check_list(uint32_t index, Tag tag, const flat::Vector& items);
  bool check_indices(const flat::Vector& indices, Check check);
  bool check_delegate(uint32_t index);
  bool check_instruction(const flat::Table& instruction, uint32_t chain_size);
  Tag tag(uint32_t value) const;

  const Program& program_;
  flat::Checker& checker_;
  ErrorRecord& error_;
  flat::Table plan_;
  flat::Vector values_;
};

/// What a value that is no tensor holds at first, from its table in the file.
Payload literal(Tag tag, const flat::Table& table);

/// Whether the `rank` bytes at `order` name each of 0 .. rank - 1 once.
bool is_permutation(const uint8_t* order, uint32_t rank);

/// Bytes of a tensor, or -1 when a size is negative or the product is more than this machine can address.
int64_t tensor_nbytes(ScalarType dtype, const uint8_t* sizes, uint32_t rank);

/// The alignment that the elements of a dtype need.
constexpr uint32_t element_alignment(ScalarType dtype) {
  const uint32_t size = static_cast<uint32_t>(element_size(dtype));
  return is_complex(dtype) ? size / 2 : size;
}

}  // namespace etir
