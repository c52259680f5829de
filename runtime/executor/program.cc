// Loading a program: header, tables, segments, and then every method.
#include "executor/program.h"

#include "core/error_text.h"
#include "core/flatbuffer_schema.h"
#include "executor/slots.h"
#include "executor/validator.h"

namespace etir {

namespace {

constexpr uint32_t kSmallest = 8;        // root offset and identifier
constexpr uint32_t kHeaderMinimum = 24;  // bytes of the extended header without the size of the segments
constexpr uint32_t kHeaderSize = 32;
constexpr size_t kHead = 8 + kHeaderSize;

struct Failure {
  ErrorRecord& record;
  Error operator()(Check check, uint64_t a = 0, uint64_t b = 0) const {
    record.check = check;
    record.a = static_cast<int64_t>(a);
    record.b = static_cast<int64_t>(b);
    return record.error();
  }
};

// What the extended header says; for a file without one, the file is the program.
struct Header {
  uint64_t program_size;
  uint64_t segment_base = 0;
};

Error read_header(DataLoader& loader, Header& header, const Failure& fail) {
  const uint64_t file_size = loader.size();
  header.program_size = file_size;
  if (file_size < kSmallest) return fail(Check::FileTooSmall, file_size, kSmallest);
  const size_t head_size = file_size < kHead ? static_cast<size_t>(file_size) : kHead;
  const uint8_t* head = static_cast<const uint8_t*>(loader.load(0, head_size, 8));
  if (head == nullptr) return fail(Check::FileRead, 0, head_size);
  uint8_t bytes[kHead] = {};
  std::memcpy(bytes, head, head_size);
  loader.release(head);
  if (std::memcmp(bytes + 4, "ET12", 4) != 0) return fail(Check::FileIdentifier);
  if (head_size < kHead || std::memcmp(bytes + 8, "eh00", 4) != 0) return Error::Ok;
  const uint32_t header_size = flat::read<uint32_t>(bytes + 12);
  if (header_size < kHeaderMinimum) return fail(Check::FileHeader, header_size, kHeaderMinimum);
  header.program_size = flat::read<uint64_t>(bytes + 16);
  header.segment_base = flat::read<uint64_t>(bytes + 24);
  if (header.program_size < kSmallest || header.program_size > file_size) {
    return fail(Check::FileTruncated, header.program_size, file_size);
  }
  const uint64_t segments = header_size >= kHeaderSize ? flat::read<uint64_t>(bytes + 32) : 0;
  if (header.segment_base > file_size || segments > file_size - header.segment_base) {
    return fail(Check::FileSegments, header.segment_base + segments, file_size);
  }
  return Error::Ok;
}

// Whether every entry of a table of offsets is within its segment.
bool check_offsets(const flat::Vector& offsets, uint64_t segment_size, const Failure& fail) {
  for (uint32_t i = 0; i < offsets.count(); ++i) {
    const uint64_t offset = offsets.get<uint64_t>(i);
    if (offset > segment_size) return fail(Check::SegmentOffset, i, offset), false;
  }
  return true;
}

}  // namespace

Program::~Program() { clear(); }

void Program::clear() {
  if (loader_ != nullptr) {
    if (constants_ != nullptr) loader_->release(constants_);
    if (base_ != nullptr) loader_->release(base_);
  }
  loader_ = nullptr;
  base_ = constants_ = nullptr;
  constants_size_ = 0;
  plans_ = segments_ = named_data_ = constant_offsets_ = mutable_offsets_ = {};
}

Error Program::load(DataLoader& loader, ErrorRecord* record) {
  clear();
  ErrorRecord failure;
  loader_ = &loader;
  const Error error = load_checked(loader, failure);
  if (error != Error::Ok) {
    log_failure(failure);
    clear();
  }
  if (record != nullptr) *record = failure;
  return error;
}

Error Program::load_checked(DataLoader& loader, ErrorRecord& record) {
  const Failure fail{record};
  Header header;
  const Error error = read_header(loader, header, fail);
  if (error != Error::Ok) return error;
  // Offsets in the tables have 32 bits, and no file needs the highest of them.
  if (header.program_size > INT32_MAX) return fail(Check::FileTruncated, header.program_size, INT32_MAX);
  const uint32_t size = static_cast<uint32_t>(header.program_size);
  base_ = static_cast<const uint8_t*>(loader.load(0, size, 16));
  if (base_ == nullptr) return fail(Check::FileRead, 0, size);
  const uintptr_t address = reinterpret_cast<uintptr_t>(base_);
  if (address % 8 != 0) return fail(Check::FileAlignment, address, 8);
  flat::Checker checker(base_, size, record);
  root_ = checker.check_root(flat::kProgram);
  if (root_.at == nullptr) return record.error();
  const uint32_t version = root_.get<uint32_t>(slot::kVersion);
  if (version != 0) return fail(Check::ProgramVersion, version, 0);

  segment_base_ = header.segment_base;
  segments_ = root_.vector(slot::kSegments);
  const uint64_t limit = segment_base_ == 0 ? 0 : loader.size() - segment_base_;
  for (uint32_t i = 0; i < segments_.count(); ++i) {
    const uint64_t offset = segments_.table(i).get<uint64_t>(slot::kSegmentOffset);
    const uint64_t bytes = segments_.table(i).get<uint64_t>(slot::kSegmentSize);
    if (bytes > 0 && (offset > limit || bytes > limit - offset)) return fail(Check::SegmentBounds, i);
  }
  named_data_ = root_.vector(slot::kProgramNamedData);
  for (uint32_t i = 0; i < named_data_.count(); ++i) {
    const uint32_t segment = named_data_.table(i).get<uint32_t>(slot::kNamedSegment);
    if (segment >= segments_.count()) return fail(Check::SegmentIndex, segment, segments_.count());
  }

  const flat::Table constants = root_.table(slot::kConstantSegment);
  if (constants.at != nullptr) {
    constant_offsets_ = constants.vector(1);
    const uint32_t segment = constants.get<uint32_t>(0);
    // A program without constants may have a table with the reserved first entry and no segment.
    if (constant_offsets_.count() > 1) {
      if (segment >= segments_.count()) return fail(Check::SegmentIndex, segment, segments_.count());
      constants_size_ = segments_.table(segment).get<uint64_t>(slot::kSegmentSize);
      if (!check_offsets(constant_offsets_, constants_size_, fail)) return record.error();
      if (constants_size_ > 0) {
        constants_ = load_segment(segment, 0, constants_size_, 16);
        if (constants_ == nullptr) {
          return fail(Check::FileRead, segments_.table(segment).get<uint64_t>(slot::kSegmentOffset), constants_size_);
        }
      }
    }
  }
  const flat::Vector mutables = root_.vector(slot::kMutableSegments);
  if (mutables.count() > 0) {
    mutable_segment_ = mutables.table(0).get<uint32_t>(0);
    mutable_offsets_ = mutables.table(0).vector(1);
    if (mutable_segment_ >= segments_.count()) return fail(Check::SegmentIndex, mutable_segment_, segments_.count());
    const uint64_t bytes = segments_.table(mutable_segment_).get<uint64_t>(slot::kSegmentSize);
    if (!check_offsets(mutable_offsets_, bytes, fail)) return record.error();
  }

  plans_ = root_.vector(slot::kPlans);
  if (plans_.count() == 0) return fail(Check::ProgramNoMethod);
  Validator validator(*this, checker, record);
  for (uint32_t i = 0; i < plans_.count(); ++i) {
    if (!validator.check_plan(i)) return record.error();
  }
  return Error::Ok;
}

const uint8_t* Program::load_segment(uint32_t index, uint64_t offset, uint64_t size, size_t alignment) const {
  const uint64_t start = segments_.table(index).get<uint64_t>(slot::kSegmentOffset);
  return static_cast<const uint8_t*>(loader_->load(segment_base_ + start + offset, size, alignment));
}

Result<MethodMeta> Program::method_meta(StringView name) const {
  for (uint32_t i = 0; i < plans_.count(); ++i) {
    const MethodMeta meta = method_meta(i);
    if (meta.name().size == name.size && std::memcmp(meta.name().data, name.data, name.size) == 0) return meta;
  }
  return Error::NotFound;
}

Result<Span<const uint8_t>> Program::named_data(StringView key) const {
  for (uint32_t i = 0; i < named_data_.count(); ++i) {
    const StringView found = named_data_key(i);
    if (found.size != key.size || std::memcmp(found.data, key.data, key.size) != 0) continue;
    const uint32_t segment = named_data_.table(i).get<uint32_t>(slot::kNamedSegment);
    const uint64_t size = segments_.table(segment).get<uint64_t>(slot::kSegmentSize);
    if (size == 0) return Span<const uint8_t>{};
    const uint8_t* data = load_segment(segment, 0, size, 16);
    if (data == nullptr) return Error::AccessFailed;
    return Span<const uint8_t>{data, static_cast<size_t>(size)};
  }
  return Error::NotFound;
}

}  // namespace etir
