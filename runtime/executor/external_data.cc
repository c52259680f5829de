// Loading external data: header, tables, and the layout and extent of every entry.
#include "executor/external_data.h"

#include "core/error_text.h"
#include "core/flatbuffer_schema.h"
#include "executor/slots.h"
#include "executor/validator.h"

namespace etir {

namespace {

constexpr size_t kHead = 48;  // root offset, identifier, and the header of 40 bytes

// The tables begin at byte 0 of the file and end before the segments.
struct Header {
  uint64_t segment_base = 0;
  uint64_t segment_size = 0;
};

bool fail(ErrorRecord& record, Check check, int64_t a = 0, int64_t b = 0) {
  record.check = check;
  record.a = a;
  record.b = b;
  return false;
}

bool read_header(DataLoader& loader, Header& header, ErrorRecord& record) {
  const uint64_t size = loader.size();
  if (size < kHead) return fail(record, Check::ExternalTooSmall, static_cast<int64_t>(size), kHead);
  const uint8_t* head = static_cast<const uint8_t*>(loader.load(0, kHead, 8));
  if (head == nullptr) return fail(record, Check::FileRead, 0, kHead);
  uint8_t bytes[kHead];
  std::memcpy(bytes, head, kHead);
  loader.release(head);
  if (std::memcmp(bytes + 4, "FT01FH01", 8) != 0) return fail(record, Check::ExternalIdentifier);
  const uint32_t length = flat::read<uint32_t>(bytes + 12);
  if (length != 40) return fail(record, Check::ExternalHeader, 12, length);
  header.segment_base = flat::read<uint64_t>(bytes + 32);
  header.segment_size = flat::read<uint64_t>(bytes + 40);
  if (header.segment_base < kHead || header.segment_base > size || header.segment_base > INT32_MAX) {
    return fail(record, Check::ExternalHeader, 32, static_cast<int64_t>(header.segment_base));
  }
  if (header.segment_size > size - header.segment_base) {
    return fail(record, Check::ExternalHeader, 40, static_cast<int64_t>(header.segment_size));
  }
  return true;
}

}  // namespace

ExternalData::~ExternalData() {
  if (base_ != nullptr) loader_->release(base_);
}

ExternalData::Entry ExternalData::entry(uint32_t index) const {
  const flat::Table named = entries_.table(index);
  const flat::Table segment = segments_.table(named.get<uint32_t>(slot::kNamedSegment));
  const flat::Table layout = named.table(slot::kTensorLayout);
  Entry entry;
  entry.key = named.string(slot::kKey);
  entry.offset = segment_base_ + segment.get<uint64_t>(slot::kSegmentOffset);
  entry.nbytes = segment.get<uint64_t>(slot::kSegmentSize);
  if (layout.at != nullptr) {
    entry.has_layout = true;
    entry.dtype = static_cast<ScalarType>(layout.get<uint8_t>(0));
    const flat::Vector sizes = layout.vector(1);
    entry.rank = static_cast<uint8_t>(sizes.count());
    entry.sizes = reinterpret_cast<const int32_t*>(sizes.items());
    entry.dim_order = layout.vector(2).items();
  }
  return entry;
}

Error ExternalData::load(DataLoader& loader, ErrorRecord* record) {
  if (base_ != nullptr) loader_->release(base_);
  base_ = nullptr;
  segments_ = entries_ = {};
  loader_ = &loader;
  ErrorRecord failure;
  if (!load_checked(loader, failure)) log_failure(failure);
  if (record != nullptr) *record = failure;
  return failure.error();
}

bool ExternalData::load_checked(DataLoader& loader, ErrorRecord& record) {
  Header header;
  if (!read_header(loader, header, record)) return false;
  const uint32_t size = static_cast<uint32_t>(header.segment_base);
  base_ = static_cast<const uint8_t*>(loader.load(0, size, 16));
  if (base_ == nullptr) return fail(record, Check::FileRead, 0, size);
  const uintptr_t address = reinterpret_cast<uintptr_t>(base_);
  if (address % 8 != 0) {
    return fail(record, Check::FileAlignment, static_cast<int64_t>(address), 8);
  }
  flat::Checker checker(base_, size, record);
  const flat::Table root = checker.check_root(flat::kFlatTensor);
  if (root.at == nullptr) return false;
  const uint32_t version = root.get<uint32_t>(0);
  if (version != 0) return fail(record, Check::ExternalVersion, version, 0);
  segment_base_ = header.segment_base;
  const flat::Vector segments = root.vector(1);
  for (uint32_t i = 0; i < segments.count(); ++i) {
    const uint64_t offset = segments.table(i).get<uint64_t>(slot::kSegmentOffset);
    const uint64_t bytes = segments.table(i).get<uint64_t>(slot::kSegmentSize);
    if (offset > header.segment_size || bytes > header.segment_size - offset) {
      return fail(record, Check::ExternalSegment, i);
    }
  }
  const flat::Vector entries = root.vector(2);
  for (uint32_t i = 0; i < entries.count(); ++i) {
    const flat::Table named = entries.table(i);
    const uint32_t segment = named.get<uint32_t>(slot::kNamedSegment);
    if (segment >= segments.count()) return fail(record, Check::ExternalSegmentIndex, i, segment);
    const flat::Table layout = named.table(slot::kTensorLayout);
    if (layout.at == nullptr) continue;
    const ScalarType dtype = static_cast<ScalarType>(layout.get<uint8_t>(0));
    const flat::Vector sizes = layout.vector(1), order = layout.vector(2);
    const uint32_t rank = sizes.count();
    if (element_size(dtype) == 0 || rank > kMaxRank || order.count() != rank || !is_permutation(order.items(), rank)) {
      return fail(record, Check::ExternalLayout, i);
    }
    const int64_t nbytes = tensor_nbytes(dtype, sizes.items(), rank);
    if (nbytes < 0) return fail(record, Check::ExternalLayout, i);
    if (static_cast<uint64_t>(nbytes) > segments.table(segment).get<uint64_t>(slot::kSegmentSize)) {
      return fail(record, Check::ExternalEntrySize, i, nbytes);
    }
  }
  segments_ = segments;
  entries_ = entries;
  return true;
}

Result<uint32_t> ExternalData::find(StringView key) const {
  for (uint32_t i = 0; i < entries_.count(); ++i) {
    const StringView found = entries_.table(i).string(slot::kKey);
    if (found.size == key.size && std::memcmp(found.data, key.data, key.size) == 0) return i;
  }
  return Error::NotFound;
}

const uint8_t* ExternalData::data(const Entry& entry, size_t alignment) const {
  if (entry.nbytes == 0) return base_;
  return static_cast<const uint8_t*>(loader_->load(entry.offset, entry.nbytes, alignment));
}

}  // namespace etir
