// External data: the named tensors of a .ptd file.
//
// The whole file is checked when it is loaded: tables, names, layouts, and that each entry has as many bytes as its
// layout says. Data are read when a method asks for them.
#pragma once

#include "core/data_loader.h"
#include "core/error.h"
#include "core/flatbuffer_reader.h"
#include "core/span.h"
#include "core/tensor.h"
#include "core/value.h"

namespace etir {

class ExternalData {
 public:
  /// One entry. Pointers are into the file's bytes.
  struct Entry {
    StringView key;
    ScalarType dtype = ScalarType::Byte;
    uint8_t rank = 0;
    bool has_layout = false;  ///< whether the entry is a tensor; dtype and shape mean something then only
    const int32_t* sizes = nullptr;
    const uint8_t* dim_order = nullptr;
    uint64_t offset = 0;  ///< offset of its data in the file
    uint64_t nbytes = 0;  ///< bytes of its segment, at least what the layout needs
  };

  ExternalData() = default;
  ExternalData(const ExternalData&) = delete;
  ExternalData& operator=(const ExternalData&) = delete;
  ~ExternalData();

  /// Reads and checks a file. `loader` must outlive this object. On failure the object is empty, and `record`
  /// (optional) says why.
  Error load(DataLoader& loader, ErrorRecord* record = nullptr);

  uint32_t size() const { return entries_.count(); }
  /// The entry at `index` < size().
  Entry entry(uint32_t index) const;
  /// The index of a key, or NotFound. Keys that are sorted or not are found by going through them.
  Result<uint32_t> find(StringView key) const;
  /// The bytes of an entry, from the loader; null when they cannot be read. An entry without bytes gives some pointer.
  const uint8_t* data(const Entry& entry, size_t alignment) const;

 private:
  bool load_checked(DataLoader& loader, ErrorRecord& record);

  DataLoader* loader_ = nullptr;
  const uint8_t* base_ = nullptr;
  uint64_t segment_base_ = 0;
  flat::Vector segments_;
  flat::Vector entries_;
};

}  // namespace etir
