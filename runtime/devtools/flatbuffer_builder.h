// Writes a FlatBuffer from its end to its start, so that children exist before the tables that refer to them.
//
// For hosts. Objects are named by a handle, the distance of their start from the end of the buffer, which stays valid
// while the buffer grows; 0 is no object. Equal strings and vtables exist once. A buffer has its size before it, which
// counts for the alignment, as in files of ExecuTorch's developer tools. https://flatbuffers.dev/internals/
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <map>
#include <string>
#include <vector>

namespace etir {
namespace host {

class FlatBufferBuilder {
 public:
  using Handle = uint32_t;

  /// A field of a table: absent, a number, or an offset.
  struct Field {
    uint8_t width = 0;
    bool is_offset = false;
    uint64_t value = 0;
  };
  static Field u8(uint64_t value) { return number(1, value); }
  static Field i32(int64_t value, int64_t standard = 0) {
    return value == standard ? Field{} : Field{4, false, static_cast<uint64_t>(value)};
  }
  static Field u64(uint64_t value) { return number(8, value); }
  static Field to(Handle handle) { return handle == 0 ? Field{} : Field{4, true, handle}; }

  Handle string(const std::string& text) {
    const auto found = strings_.find(text);
    if (found != strings_.end()) return found->second;
    std::string object = count(text.size()) + text + '\0';
    return strings_[text] = put(object, 4, 0);
  }
  Handle bytes(const std::string& data) { return put(count(data.size()) + data, 4, 0); }
  Handle numbers(const int64_t* items, size_t size) {
    std::string object = count(size);
    object.append(reinterpret_cast<const char*>(items), sizeof(int64_t) * size);
    return put(object, 8, 4);
  }
  Handle tables(const std::vector<Handle>& items) {
    reserve(4 + 4 * items.size(), 4, 0);
    // Written from the back: the last item first.
    const Handle handle = size() + static_cast<Handle>(4 + 4 * items.size());
    for (size_t i = items.size(); i-- > 0;) {
      const uint32_t offset = handle - static_cast<uint32_t>(4 + 4 * i) - items[i];
      push(&offset, sizeof(offset));
    }
    const uint32_t length = static_cast<uint32_t>(items.size());
    push(&length, sizeof(length));
    return handle;
  }
  Handle table(const std::vector<Field>& fields) {
    // Widest first, so that nothing inside of the table needs padding.
    std::vector<uint16_t> places(fields.size(), 0);
    uint32_t end = 4;
    bool wide = false;
    for (const uint8_t width : {8, 4, 1}) {
      for (size_t i = 0; i < fields.size(); ++i) {
        if (fields[i].width != width) continue;
        places[i] = static_cast<uint16_t>(end);
        end += width;
        wide = wide || width == 8;
      }
    }
    while (!places.empty() && places.back() == 0) places.pop_back();
    std::string vtable;
    append(&vtable, static_cast<uint16_t>(4 + 2 * places.size()));
    append(&vtable, static_cast<uint16_t>(end));
    for (const uint16_t place : places) append(&vtable, place);
    auto found = vtables_.find(vtable);
    if (found == vtables_.end()) found = vtables_.emplace(vtable, put(vtable, 2, 0)).first;
    reserve(end, wide ? 8 : 4, wide ? 4 : 0);
    const Handle handle = size() + end;
    std::string object(end, '\0');
    const uint32_t back = found->second - handle;
    std::memcpy(&object[0], &back, 4);
    for (size_t i = 0; i < places.size(); ++i) {
      const Field& field = fields[i];
      if (field.width == 0) continue;
      const uint64_t value = field.is_offset ? handle - places[i] - field.value : field.value;
      std::memcpy(&object[places[i]], &value, field.width);
    }
    push(object.data(), object.size());
    return handle;
  }

  /// The bytes of the file. Empty when they are more than offsets can address.
  std::string finish(Handle root, const char* identifier) {
    constexpr size_t kPrefix = 4, kHead = 8;
    const size_t total = (std::max<size_t>(reversed_.size() + kHead, 64) + kPrefix + 7) / 8 * 8 - kPrefix;
    if (overflow_ || total > INT32_MAX) return "";
    reversed_.append(total - reversed_.size() - kHead, '\0');
    push(identifier, 4);
    const uint32_t start = static_cast<uint32_t>(total) - root, size = static_cast<uint32_t>(total);
    push(&start, sizeof(start));
    push(&size, sizeof(size));
    std::reverse(reversed_.begin(), reversed_.end());
    return std::move(reversed_);
  }

 private:
  static Field number(uint8_t width, uint64_t value) { return value == 0 ? Field{} : Field{width, false, value}; }
  template <typename T>
  static void append(std::string* to, T value) {
    to->append(reinterpret_cast<const char*>(&value), sizeof(value));
  }
  static std::string count(size_t size) {
    std::string text;
    append(&text, static_cast<uint32_t>(size));
    return text;
  }
  Handle size() {
    overflow_ = overflow_ || reversed_.size() > INT32_MAX;
    return static_cast<Handle>(reversed_.size());
  }
  /// Padding, so that byte `phase` of an object of `bytes` bytes is aligned.
  void reserve(size_t bytes, size_t alignment, size_t phase) {
    const size_t end = reversed_.size() + bytes;
    reversed_.append((phase + alignment - end % alignment) % alignment, '\0');
  }
  void push(const void* data, size_t bytes) {
    const char* from = static_cast<const char*>(data);
    for (size_t i = bytes; i-- > 0;) reversed_.push_back(from[i]);
  }
  Handle put(const std::string& object, size_t alignment, size_t phase) {
    reserve(object.size(), alignment, phase);
    push(object.data(), object.size());
    return size();
  }

  std::string reversed_;  ///< the bytes from the last to the first
  bool overflow_ = false;
  std::map<std::string, Handle> strings_, vtables_;
};

}  // namespace host
}  // namespace etir
