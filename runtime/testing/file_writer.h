// Writes program files for tests, valid or not: a tree of FlatBuffer tables and vectors, laid out parents first.
//
// Nothing is checked: a test says what it wants to be in the file. `Small` is a whole program around that.
#pragma once

#include <cstdint>
#include <cstring>
#include <deque>
#include <initializer_list>
#include <string>
#include <vector>

#include "core/flatbuffer_schema.h"
#include "core/scalar_type.h"
#include "core/value.h"

namespace etir {
namespace testing {

struct Node;

/// A field of a table: nothing, a number of `width` bytes, or what an offset leads to.
struct Field {
  uint32_t width = 0;
  uint64_t number = 0;
  Node* node = nullptr;
};

/// A table, or a vector: of bytes in `items`, or of tables in `children`.
struct Node {
  bool is_table = false;
  std::vector<Field> fields;
  std::string items;
  uint32_t item_size = 1;
  std::vector<Node*> children;
};

class FileWriter {
 public:
  static Field u8(uint64_t number) { return {1, number, nullptr}; }
  static Field u32(uint64_t number) { return {4, number, nullptr}; }
  static Field u64(uint64_t number) { return {8, number, nullptr}; }
  static Field to(Node* node) { return {4, 0, node}; }

  Node* table(std::vector<Field> fields) {
    nodes_.push_back({true, std::move(fields), {}, 1, {}});
    return &nodes_.back();
  }
  Node* tables(std::vector<Node*> children) {
    nodes_.push_back({false, {}, {}, 4, std::move(children)});
    return &nodes_.back();
  }
  Node* string(const std::string& text) {
    nodes_.push_back({false, {}, text, 1, {}});
    return &nodes_.back();
  }
  template <typename T>
  Node* vector(const std::vector<T>& numbers) {
    std::string items(numbers.size() * sizeof(T), '\0');
    if (!numbers.empty()) std::memcpy(&items[0], numbers.data(), items.size());
    nodes_.push_back({false, {}, items, sizeof(T), {}});
    return &nodes_.back();
  }

  /// The bytes of a file with a root table and an identifier of four characters, and `head` bytes between them and it.
  std::string file(Node* root, const char* identifier, size_t head = 0) {
    bytes_.assign(8 + head, '\0');
    std::memcpy(&bytes_[4], identifier, 4);
    const uint32_t at = write(root);
    std::memcpy(&bytes_[0], &at, 4);
    return bytes_;
  }

 private:
  void align(size_t alignment, size_t ahead = 0) {
    while ((bytes_.size() + ahead) % alignment != 0) bytes_.push_back('\0');
  }
  template <typename T>
  void put(T value) {
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof(value));
  }
  void point(size_t from, uint32_t target) {
    const uint32_t distance = target - static_cast<uint32_t>(from);
    std::memcpy(&bytes_[from], &distance, 4);
  }

  uint32_t write(Node* node) {
    if (!node->is_table) return write_vector(node);
    // Numbers of 8 bytes first, so that all of them are aligned.
    std::vector<uint16_t> places(node->fields.size(), 0);
    size_t size = 4;
    for (const uint32_t width : {4u, 8u, 1u}) {
      if (width == 8) size = (size + 7) / 8 * 8;
      for (size_t i = 0; i < places.size(); ++i) {
        if (node->fields[i].width != width) continue;
        places[i] = static_cast<uint16_t>(size);
        size += width;
      }
    }
    align(2);
    const size_t vtable = bytes_.size();
    put(static_cast<uint16_t>(4 + 2 * places.size()));
    put(static_cast<uint16_t>(size));
    for (const uint16_t place : places) put(place);
    align(8);
    const size_t at = bytes_.size();
    bytes_.append(size, '\0');
    const int32_t back = static_cast<int32_t>(at - vtable);
    std::memcpy(&bytes_[at], &back, 4);
    for (size_t i = 0; i < places.size(); ++i) {
      if (places[i] != 0) std::memcpy(&bytes_[at + places[i]], &node->fields[i].number, node->fields[i].width);
    }
    for (size_t i = 0; i < places.size(); ++i) {
      if (node->fields[i].node != nullptr) point(at + places[i], write(node->fields[i].node));
    }
    return static_cast<uint32_t>(at);
  }

  uint32_t write_vector(Node* node) {
    align(node->item_size < 4 ? 4 : node->item_size, node->item_size > 4 ? 4 : 0);
    const size_t at = bytes_.size();
    if (!node->children.empty()) {
      put(static_cast<uint32_t>(node->children.size()));
      bytes_.append(4 * node->children.size(), '\0');
      for (size_t i = 0; i < node->children.size(); ++i) point(at + 4 + 4 * i, write(node->children[i]));
      return static_cast<uint32_t>(at);
    }
    put(static_cast<uint32_t>(node->items.size() / node->item_size));
    bytes_ += node->items;
    bytes_.push_back('\0');
    align(4);
    return static_cast<uint32_t>(at);
  }

  std::deque<Node> nodes_;
  std::string bytes_;
};

/// A method `forward` with a float input of 2 x 3 elements, planned at 0, and one call of `test::twice.out` that writes
/// an output of the same shape, planned at 32. Tests change the nodes before they take the bytes.
struct Small {
  FileWriter w;
  Node *input, *output, *values, *inputs, *outputs, *call, *instruction, *instructions, *chain, *op, *sizes, *plan,
      *plans, *program;

  Node* value(Tag tag, Node* table) { return w.table({w.u8(static_cast<uint8_t>(tag)), w.to(table)}); }
  Node* integer(int64_t number) { return value(Tag::Int, w.table({w.u64(static_cast<uint64_t>(number))})); }
  Node* tensor(uint32_t offset, uint8_t dynamism = 0) {
    Node* place = w.table({w.u32(1), w.u32(offset), w.u32(0)});
    return w.table({w.u8(static_cast<uint8_t>(ScalarType::Float)),
                    w.u32(0),
                    w.to(w.vector<int32_t>({2, 3})),
                    w.to(w.vector<uint8_t>({0, 1})),
                    w.u8(0),
                    w.u32(0),
                    w.to(place),
                    w.u8(0),
                    w.u8(dynamism),
                    {}});
  }

  explicit Small(uint8_t dynamism = 0) {
    input = tensor(0, dynamism);
    output = tensor(32, dynamism);
    values = w.tables({value(Tag::Tensor, input), value(Tag::Tensor, output)});
    inputs = w.vector<int32_t>({0});
    outputs = w.vector<int32_t>({1});
    call = w.table({w.u32(0), w.to(w.vector<int32_t>({0, 1, 1}))});
    instruction = w.table({w.u8(1), w.to(call)});
    instructions = w.tables({instruction});
    chain = w.table({{}, {}, w.to(instructions)});
    op = w.table({w.to(w.string("test::twice")), w.to(w.string("out"))});
    sizes = w.vector<int64_t>({0, 64});
    plan = w.table({w.to(w.string("forward")),
                    {},
                    w.to(values),
                    w.to(inputs),
                    w.to(outputs),
                    w.to(w.tables({chain})),
                    w.to(w.tables({op})),
                    {},
                    w.to(sizes)});
    plans = w.tables({plan});
    program = w.table({w.u32(0), w.to(plans)});
  }
  std::string bytes() { return w.file(program, "ET12"); }
};

/// Bytes of a file at an address that is a multiple of 16.
class Aligned {
 public:
  explicit Aligned(const std::string& bytes) : size_(bytes.size()), memory_((bytes.size() + 31) / 16) {
    std::memcpy(data(), bytes.data(), bytes.size());
  }
  explicit Aligned(size_t size) : size_(size), memory_((size + 31) / 16) {}
  uint8_t* data() { return memory_.empty() ? nullptr : memory_[0].bytes; }
  size_t size() const { return size_; }

 private:
  struct alignas(16) Block {
    uint8_t bytes[16];
  };
  size_t size_;
  std::vector<Block> memory_;
};

}  // namespace testing
}  // namespace etir
