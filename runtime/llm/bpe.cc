// Byte pair encoding: adjacent tokens are merged, the pair that was learned first before all others (Sennrich et al.,
// "Neural Machine Translation of Rare Words with Subword Units", 2016). A heap holds the pairs, so that a piece of n
// characters takes n log n steps; ids of short pieces are kept, as texts repeat their words.
#include <mutex>
#include <queue>

#include "llm/parts.h"
#include "llm/text.h"
#include "llm/vocabulary.h"

namespace etir {
namespace llm {

namespace {

constexpr size_t kMostCached = 10000, kMostCachedBytes = 64;

class Bpe : public Model {
 public:
  bool read(const Json& json, Failure* failure) {
    if (!vocabulary_.read(json["vocab"], failure)) return false;
    prefix_ = json["continuing_subword_prefix"].string_or("");
    suffix_ = json["end_of_word_suffix"].string_or("");
    byte_fallback_ = json["byte_fallback"].bool_or(false);
    fuse_unknown_ = json["fuse_unk"].bool_or(false);
    whole_words_ = json["ignore_merges"].bool_or(false);
    if (json.has("unk_token")) unknown_ = vocabulary_.id_of(json["unk_token"].string_or(""));
    const Json& merges = json["merges"];
    if (!merges.is(Json::Type::Array)) return failure->set(Cause::TokenizerFile, "the model has no merges");
    merges_.reserve(merges.items.size());
    for (size_t rank = 0; rank < merges.items.size(); ++rank) {
      const Json& merge = merges.items[rank];
      std::string first, second;
      if (merge.items.size() == 2) {
        first = merge.items[0].text;
        second = merge.items[1].text;
      } else {
        const size_t space = merge.text.find(' ');
        if (space == std::string::npos) {
          return failure->set(Cause::TokenizerFile, "merge " + std::to_string(rank) + " is no pair of tokens");
        }
        first = merge.text.substr(0, space);
        second = merge.text.substr(space + 1);
      }
      const int32_t a = vocabulary_.id_of(first), b = vocabulary_.id_of(second);
      const bool cut = second.compare(0, prefix_.size(), prefix_) == 0;
      const int32_t both = vocabulary_.id_of(first + (cut ? second.substr(prefix_.size()) : second));
      if (a < 0 || b < 0 || both < 0) {
        return failure->set(Cause::TokenizerFile,
                            "merge " + std::to_string(rank) + " is of tokens that the vocabulary does not have");
      }
      merges_.emplace(key(a, b), Merge{static_cast<uint32_t>(rank), both});
    }
    for (int byte = 0; byte < 256 && byte_fallback_; ++byte) {
      bytes_[byte] = vocabulary_.id_of(byte_token(static_cast<unsigned char>(byte)));
    }
    return true;
  }

  bool encode(std::string_view piece, std::vector<int32_t>* ids, Failure*) const override {
    if (piece.empty()) return true;
    if (whole_words_) {
      const int32_t whole = vocabulary_.id_of(piece);
      if (whole >= 0) {
        ids->push_back(whole);
        return true;
      }
    }
    const bool cached = piece.size() <= kMostCachedBytes;
    if (cached) {
      const std::lock_guard<std::mutex> lock(mutex_);
      const auto found = cache_.find(std::string(piece));
      if (found != cache_.end()) {
        ids->insert(ids->end(), found->second.begin(), found->second.end());
        return true;
      }
    }
    const std::vector<int32_t> word = merged(symbols(piece));
    ids->insert(ids->end(), word.begin(), word.end());
    if (cached) {
      const std::lock_guard<std::mutex> lock(mutex_);
      if (cache_.size() < kMostCached) cache_.emplace(piece, word);
    }
    return true;
  }

  int32_t id_of(std::string_view token) const override { return vocabulary_.id_of(token); }
  const std::string* token_of(int32_t id) const override { return vocabulary_.token_of(id); }
  int32_t size() const override { return vocabulary_.size(); }

 private:
  struct Merge {
    uint32_t rank;
    int32_t id;
  };
  static uint64_t key(int32_t a, int32_t b) {
    return static_cast<uint64_t>(static_cast<uint32_t>(a)) << 32 | static_cast<uint32_t>(b);
  }

  /// The ids of the characters.
  std::vector<int32_t> symbols(std::string_view piece) const {
    std::vector<int32_t> found;
    found.reserve(piece.size());
    bool last_unknown = false;
    std::string token;
    for (size_t at = 0; at < piece.size();) {
      const size_t length = std::min(utf8_length(piece[at]), piece.size() - at);
      const std::string_view character = piece.substr(at, length);
      token = at > 0 ? prefix_ : std::string();
      token += character;
      at += length;
      if (at == piece.size()) token += suffix_;
      const int32_t id = vocabulary_.id_of(token);
      if (id >= 0) {
        found.push_back(id);
        last_unknown = false;
        continue;
      }
      if (byte_fallback_) {
        bool all = true;
        for (const char c : token) all = all && bytes_[static_cast<unsigned char>(c)] >= 0;
        if (all) {
          for (const char c : token) found.push_back(bytes_[static_cast<unsigned char>(c)]);
          last_unknown = false;
          continue;
        }
      }
      if (unknown_ < 0) continue;  // as in the package: what nothing stands for goes
      if (!(last_unknown && fuse_unknown_)) found.push_back(unknown_);
      last_unknown = true;
    }
    return found;
  }

  std::vector<int32_t> merged(std::vector<int32_t> ids) const {
    const size_t count = ids.size();
    if (count < 2) return ids;
    struct Link {
      int32_t before, after;
    };
    std::vector<Link> links(count);
    for (size_t i = 0; i < count; ++i) {
      links[i] = {static_cast<int32_t>(i) - 1, i + 1 < count ? static_cast<int32_t>(i) + 1 : -1};
    }
    struct Candidate {
      uint32_t rank;
      int32_t at, id;
      bool operator<(const Candidate& other) const {
        return rank != other.rank ? rank > other.rank : at > other.at;  // the smallest is on top
      }
    };
    std::priority_queue<Candidate> heap;
    const auto look = [&](int32_t at) {
      const int32_t next = links[static_cast<size_t>(at)].after;
      if (next < 0) return;
      const auto found = merges_.find(key(ids[static_cast<size_t>(at)], ids[static_cast<size_t>(next)]));
      if (found != merges_.end()) heap.push({found->second.rank, at, found->second.id});
    };
    for (size_t i = 0; i + 1 < count; ++i) look(static_cast<int32_t>(i));
    while (!heap.empty()) {
      const Candidate top = heap.top();
      heap.pop();
      const size_t at = static_cast<size_t>(top.at);
      if (ids[at] < 0 || links[at].after < 0) continue;
      const size_t next = static_cast<size_t>(links[at].after);
      const auto found = merges_.find(key(ids[at], ids[next]));
      if (found == merges_.end() || found->second.id != top.id) continue;  // one of the two has changed since
      ids[at] = top.id;
      ids[next] = -1;
      links[at].after = links[next].after;
      if (links[at].after >= 0) links[static_cast<size_t>(links[at].after)].before = top.at;
      if (links[at].before >= 0) look(links[at].before);
      look(top.at);
    }
    std::vector<int32_t> out;
    for (const int32_t id : ids) {
      if (id >= 0) out.push_back(id);
    }
    return out;
  }

  Vocabulary vocabulary_;
  std::unordered_map<uint64_t, Merge> merges_;
  std::string prefix_, suffix_;
  bool byte_fallback_ = false, fuse_unknown_ = false, whole_words_ = false;
  int32_t unknown_ = -1;
  int32_t bytes_[256] = {};
  mutable std::mutex mutex_;
  mutable std::unordered_map<std::string, std::vector<int32_t>> cache_;
};

}  // namespace

std::unique_ptr<Model> make_bpe(const Json& json, Failure* failure) {
  auto model = std::make_unique<Bpe>();
  return model->read(json, failure) ? std::move(model) : nullptr;
}

}  // namespace llm
}  // namespace etir
