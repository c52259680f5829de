// Saved sessions.
//
//   "ETIRLLM1"  u64 digest of the program  u64 tokens  i32 each
//   u64 buffers; each: u64 bytes, u64 pages that are not all zero; each: u64 number, its bytes (the last may be short)
//   u64 check of all of that
//
// The buffers are the method's planned memory: which of it is state is known to the compiler only. What no run has
// written is zero, and most of a cache is, so that pages of zeros are left out.
#include <algorithm>
#include <cstdio>
#include <cstring>

#include "llm/session.h"

namespace etir {
namespace llm {

namespace {

constexpr char kMagic[] = "ETIRLLM1";
constexpr size_t kPage = 4096;

/// A file that is written or read, with the sum of what went through.
class Stream {
 public:
  explicit Stream(std::FILE* file) : file_(file) {}
  ~Stream() {
    if (file_ != nullptr) std::fclose(file_);
  }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  bool write(const void* data, size_t size) {
    add(data, size);
    return std::fwrite(data, 1, size, file_) == size;
  }
  bool read(void* data, size_t size) {
    if (std::fread(data, 1, size, file_) != size) return false;
    add(data, size);
    return true;
  }
  bool write(uint64_t number) { return write(&number, sizeof(number)); }
  bool read(uint64_t* number) { return read(number, sizeof(*number)); }
  uint64_t sum() const { return sum_; }
  void restart() {
    std::rewind(file_);
    sum_ = 0;
  }
  bool at_end() { return std::fgetc(file_) == EOF; }
  bool close() {
    std::FILE* file = file_;
    file_ = nullptr;
    return std::fclose(file) == 0;
  }

 private:
  void add(const void* data, size_t size) {
    const unsigned char* bytes = static_cast<const unsigned char*>(data);
    for (size_t at = 0; at < size; at += 8) {
      uint64_t word = 0;
      std::memcpy(&word, bytes + at, std::min<size_t>(8, size - at));
      sum_ = (sum_ ^ word) * 0x9E3779B97F4A7C15u;
      sum_ ^= sum_ >> 29;
    }
  }
  std::FILE* file_;
  uint64_t sum_ = 0;
};

/// The memory of the methods, each part once.
std::vector<PlannedBuffer> memory_of(const host::Method& prefill, const host::Method& decode) {
  std::vector<PlannedBuffer> all;
  for (const host::Method* method : {&prefill, &decode}) {
    for (const PlannedBuffer& buffer : method->planned()) {
      const auto same = [&](const PlannedBuffer& other) { return other.data == buffer.data; };
      if (buffer.size > 0 && std::none_of(all.begin(), all.end(), same)) all.push_back(buffer);
    }
  }
  return all;
}

bool all_zero(const unsigned char* data, size_t size) {
  return data[0] == 0 && std::memcmp(data, data + 1, size - 1) == 0;
}

/// Makes a buffer zero. Pages that are, are not written: those of a cache that nothing has used take no memory yet.
void clear(const PlannedBuffer& buffer) {
  unsigned char* data = static_cast<unsigned char*>(buffer.data);
  for (size_t at = 0; at < buffer.size; at += kPage) {
    const size_t size = std::min(kPage, static_cast<size_t>(buffer.size) - at);
    if (!all_zero(data + at, size)) std::memset(data + at, 0, size);
  }
}

}  // namespace

bool Session::save(const std::string& path, Failure* failure) {
  const std::lock_guard<std::recursive_mutex> lock(mutex_);
  const auto cannot = [&] {
    std::remove((path + ".partial").c_str());
    return failure->set(Cause::SavedSession, "'" + path + "' cannot be written");
  };
  std::FILE* file = std::fopen((path + ".partial").c_str(), "wb");
  if (file == nullptr) return cannot();
  Stream stream(file);
  const std::vector<PlannedBuffer> memory = memory_of(*prefill_, *decode_);
  bool good = stream.write(kMagic, 8) && stream.write(model_->digest()) && stream.write(tokens_.size()) &&
              stream.write(tokens_.data(), tokens_.size() * sizeof(int32_t)) && stream.write(memory.size());
  for (size_t i = 0; i < memory.size() && good; ++i) {
    const unsigned char* data = static_cast<const unsigned char*>(memory[i].data);
    std::vector<uint64_t> pages;
    for (uint64_t at = 0; at < memory[i].size; at += kPage) {
      if (!all_zero(data + at, std::min<uint64_t>(kPage, memory[i].size - at))) pages.push_back(at / kPage);
    }
    good = stream.write(memory[i].size) && stream.write(pages.size());
    for (size_t p = 0; p < pages.size() && good; ++p) {
      const uint64_t at = pages[p] * kPage;
      good = stream.write(pages[p]) && stream.write(data + at, std::min<uint64_t>(kPage, memory[i].size - at));
    }
  }
  good = good && stream.write(stream.sum());
  if (!stream.close() || !good || std::rename((path + ".partial").c_str(), path.c_str()) != 0) return cannot();
  return true;
}

bool Session::restore(const std::string& path, Failure* failure) {
  const std::lock_guard<std::recursive_mutex> lock(mutex_);
  const auto wrong = [&](const char* what) { return failure->set(Cause::SavedSession, "'" + path + "' " + what); };
  std::FILE* file = std::fopen(path.c_str(), "rb");
  if (file == nullptr) return wrong("cannot be read");
  const std::vector<PlannedBuffer> memory = memory_of(*prefill_, *decode_);
  Stream stream(file);
  // Twice: what is damaged changes nothing.
  std::vector<int32_t> tokens;
  for (const bool apply : {false, true}) {
    stream.restart();
    char magic[8];
    uint64_t digest = 0, count = 0, buffers = 0, sum = 0;
    if (!stream.read(magic, 8) || std::memcmp(magic, kMagic, 8) != 0) return wrong("is no saved session");
    if (!stream.read(&digest) || digest != model_->digest()) return wrong("was saved with another program");
    if (!stream.read(&count) || count > static_cast<uint64_t>(model_->context_)) return wrong("is damaged");
    tokens.resize(count);
    if (!stream.read(tokens.data(), count * sizeof(int32_t)) || !stream.read(&buffers) || buffers != memory.size()) {
      return wrong("is damaged");
    }
    Failure outside;
    if (!check(tokens, &outside)) return wrong("is damaged");
    for (const PlannedBuffer& buffer : memory) {
      uint64_t size = 0, pages = 0, before = 0;
      unsigned char page[kPage];
      if (!stream.read(&size) || size != buffer.size || !stream.read(&pages)) return wrong("is damaged");
      if (apply) clear(buffer);
      for (uint64_t p = 0; p < pages; ++p) {
        uint64_t number = 0;
        if (!stream.read(&number) || number >= (size + kPage - 1) / kPage || (p > 0 && number <= before)) {
          return wrong("is damaged");
        }
        before = number;
        const size_t bytes = std::min<uint64_t>(kPage, size - number * kPage);
        if (!stream.read(page, bytes)) return wrong("is damaged");
        if (apply) std::memcpy(static_cast<unsigned char*>(buffer.data) + number * kPage, page, bytes);
      }
    }
    const uint64_t expected = stream.sum();
    if (!stream.read(&sum) || sum != expected || !stream.at_end()) return wrong("is damaged");
  }
  ++generation_;
  tokens_ = std::move(tokens);
  // How far it had come is not in the file: what is taken back of a ring is fed again.
  reached_ = tokens_.empty() ? 0 : SIZE_MAX;
  return true;
}

}  // namespace llm
}  // namespace etir
