// WordPiece, Unigram and word level; BPE is in bpe.cc.
#include <algorithm>
#include <cmath>
#include <limits>

#include "llm/parts.h"
#include "llm/text.h"
#include "llm/vocabulary.h"

namespace etir {
namespace llm {

namespace {

/// The longest token first, from left to right (Schuster and Nakajima, "Japanese and Korean Voice Search", 2012).
class WordPiece : public Model {
 public:
  bool read(const Json& json, Failure* failure) {
    if (!vocabulary_.read(json["vocab"], failure)) return false;
    unknown_ = vocabulary_.id_of(json["unk_token"].string_or("[UNK]"));
    prefix_ = json["continuing_subword_prefix"].string_or("##");
    most_ = static_cast<size_t>(std::max(0, json["max_input_chars_per_word"].int_or(100)));
    for (int32_t id = 0; id < vocabulary_.size(); ++id) {
      const std::string* token = vocabulary_.token_of(id);
      if (token != nullptr) longest_ = std::max(longest_, token->size());
    }
    return true;
  }
  bool encode(std::string_view piece, std::vector<int32_t>* ids, Failure* failure) const override {
    size_t characters = 0;
    for (const char c : piece) characters += (static_cast<unsigned char>(c) & 0xC0) != 0x80;
    const size_t before = ids->size();
    bool known = characters <= most_;
    for (size_t begin = 0; known && begin < piece.size();) {
      const std::string prefix = begin > 0 ? prefix_ : std::string();
      size_t end = std::min(piece.size(), begin + longest_);
      while (end < piece.size() && end > begin && (static_cast<unsigned char>(piece[end]) & 0xC0) == 0x80) --end;
      int32_t id = -1;
      while (end > begin) {
        id = vocabulary_.id_of(prefix + std::string(piece.substr(begin, end - begin)));
        if (id >= 0) break;
        end = previous_utf8(piece, end);
      }
      known = id >= 0;
      if (known) ids->push_back(id);
      begin = end;
    }
    if (known) return true;
    ids->resize(before);
    if (unknown_ < 0) return failure->set(Cause::NotEncodable, "the tokenizer has no token for what it does not know");
    ids->push_back(unknown_);
    return true;
  }
  int32_t id_of(std::string_view token) const override { return vocabulary_.id_of(token); }
  const std::string* token_of(int32_t id) const override { return vocabulary_.token_of(id); }
  int32_t size() const override { return vocabulary_.size(); }

 private:
  Vocabulary vocabulary_;
  int32_t unknown_ = -1;
  std::string prefix_;
  size_t most_ = 100, longest_ = 0;
};

class WordLevel : public Model {
 public:
  bool read(const Json& json, Failure* failure) {
    unknown_text_ = json["unk_token"].string_or("<unk>");
    return vocabulary_.read(json["vocab"], failure);
  }
  bool encode(std::string_view piece, std::vector<int32_t>* ids, Failure* failure) const override {
    int32_t id = vocabulary_.id_of(piece);
    if (id < 0) id = vocabulary_.id_of(unknown_text_);
    if (id < 0) return failure->set(Cause::NotEncodable, "the tokenizer has no token for what it does not know");
    ids->push_back(id);
    return true;
  }
  int32_t id_of(std::string_view token) const override { return vocabulary_.id_of(token); }
  const std::string* token_of(int32_t id) const override { return vocabulary_.token_of(id); }
  int32_t size() const override { return vocabulary_.size(); }

 private:
  Vocabulary vocabulary_;
  std::string unknown_text_;
};

/// The most likely cut of a piece into tokens, by dynamic programming (Kudo, "Subword Regularization", 2018).
class Unigram : public Model {
 public:
  bool read(const Json& json, Failure* failure) {
    const Json& rows = json["vocab"];
    if (!rows.is(Json::Type::Array) || rows.items.empty()) {
      return failure->set(Cause::TokenizerFile, "the model has no vocabulary");
    }
    double least = std::numeric_limits<double>::infinity();
    for (const Json& row : rows.items) {
      if (row.items.size() != 2 || !row.items[0].is(Json::Type::String) || !row.items[1].is(Json::Type::Number)) {
        return failure->set(Cause::TokenizerFile, "a row of the vocabulary is no pair of text and score");
      }
      if (!vocabulary_.add(row.items[0].text, static_cast<int32_t>(scores_.size()), failure)) return false;
      scores_.push_back(row.items[1].number);
      least = std::min(least, scores_.back());
      longest_ = std::max(longest_, row.items[0].text.size());
    }
    unknown_ = json["unk_id"].int_or(-1);
    if (unknown_ >= vocabulary_.size())
      return failure->set(Cause::TokenizerFile, "unk_id is outside of the vocabulary");
    unknown_score_ = least - 10;
    byte_fallback_ = json["byte_fallback"].bool_or(false);
    for (int byte = 0; byte < 256; ++byte)
      bytes_[byte] = vocabulary_.id_of(byte_token(static_cast<unsigned char>(byte)));
    build_trie();
    return true;
  }

  bool encode(std::string_view piece, std::vector<int32_t>* ids, Failure* failure) const override {
    struct Node {
      int32_t id = -1;
      double score = 0;
      size_t begin = SIZE_MAX;
    };
    std::vector<Node> best(piece.size() + 1);
    for (size_t begin = 0; begin < piece.size();) {
      const double before = best[begin].score;
      const size_t length = std::min(utf8_length(piece[begin]), piece.size() - begin);
      bool single = false;
      const auto offer = [&](size_t end, int32_t id, double score) {
        Node& node = best[end];
        if (node.begin == SIZE_MAX || score + before > node.score) node = {id, score + before, begin};
      };
      size_t state = 0;
      for (size_t end = begin; end < piece.size();) {
        state = step(state, static_cast<unsigned char>(piece[end]));
        if (state == 0) break;
        ++end;
        const int32_t id = nodes_[state].id;
        if (id < 0) continue;
        offer(end, id, scores_[static_cast<size_t>(id)]);
        single = single || end - begin == length;
      }
      if (!single) {
        if (unknown_ < 0)
          return failure->set(Cause::NotEncodable, "the tokenizer has no token for what it does not know");
        offer(begin + length, unknown_, unknown_score_);
      }
      begin += length;
    }
    // From the end to the begin; unknown characters in a row are one token.
    std::vector<std::pair<size_t, size_t>> parts;
    bool last_unknown = false;
    for (size_t end = piece.size(); end > 0;) {
      const Node& node = best[end];
      const bool unknown = node.id == unknown_;
      if (unknown && last_unknown) {
        parts.back().first = node.begin;
      } else {
        parts.emplace_back(node.begin, end);
      }
      last_unknown = unknown;
      end = node.begin;
    }
    for (size_t i = parts.size(); i-- > 0;) {
      const std::string_view text = piece.substr(parts[i].first, parts[i].second - parts[i].first);
      const int32_t id = vocabulary_.id_of(text);
      if (id >= 0) {
        ids->push_back(id);
        continue;
      }
      bool all = byte_fallback_;
      for (const char c : text) all = all && bytes_[static_cast<unsigned char>(c)] >= 0;
      if (all) {
        for (const char c : text) ids->push_back(bytes_[static_cast<unsigned char>(c)]);
      } else {
        ids->push_back(unknown_);
      }
    }
    return true;
  }
  int32_t id_of(std::string_view token) const override { return vocabulary_.id_of(token); }
  const std::string* token_of(int32_t id) const override { return vocabulary_.token_of(id); }
  int32_t size() const override { return vocabulary_.size(); }

 private:
  /// Children of a node stand in one row of links_, sorted by byte.
  struct TrieNode {
    uint32_t first = 0;
    uint32_t count = 0;
    int32_t id = -1;
  };
  struct Link {
    unsigned char byte;
    uint32_t node;
  };

  size_t step(size_t node, unsigned char byte) const {
    const Link* begin = links_.data() + nodes_[node].first;
    const Link* end = begin + nodes_[node].count;
    const Link* found =
        std::lower_bound(begin, end, byte, [](const Link& link, unsigned char b) { return link.byte < b; });
    return found == end || found->byte != byte ? 0 : found->node;
  }

  void build_trie() {
    std::vector<std::pair<std::string_view, int32_t>> sorted;
    for (int32_t id = 0; id < vocabulary_.size(); ++id) {
      const std::string* token = vocabulary_.token_of(id);
      if (token != nullptr && !token->empty()) sorted.emplace_back(*token, vocabulary_.id_of(*token));
    }
    std::sort(sorted.begin(), sorted.end());
    // A row of the work list is a node and the tokens below it.
    struct Work {
      size_t node, begin, end, depth;
    };
    std::vector<Work> work = {{0, 0, sorted.size(), 0}};
    nodes_.emplace_back();
    for (size_t w = 0; w < work.size(); ++w) {
      const Work now = work[w];
      size_t at = now.begin;
      while (at < now.end && sorted[at].first.size() == now.depth) nodes_[now.node].id = sorted[at++].second;
      nodes_[now.node].first = static_cast<uint32_t>(links_.size());
      while (at < now.end) {
        const unsigned char byte = static_cast<unsigned char>(sorted[at].first[now.depth]);
        size_t end = at;
        while (end < now.end && static_cast<unsigned char>(sorted[end].first[now.depth]) == byte) ++end;
        links_.push_back({byte, static_cast<uint32_t>(nodes_.size())});
        ++nodes_[now.node].count;
        work.push_back({nodes_.size(), at, end, now.depth + 1});
        nodes_.emplace_back();
        at = end;
      }
    }
  }

  Vocabulary vocabulary_;
  std::vector<double> scores_;
  std::vector<TrieNode> nodes_;
  std::vector<Link> links_;
  int32_t unknown_ = -1;
  double unknown_score_ = 0;
  bool byte_fallback_ = false;
  int32_t bytes_[256] = {};
  size_t longest_ = 0;
};

template <typename Kind>
std::unique_ptr<Model> make(const Json& json, Failure* failure) {
  auto model = std::make_unique<Kind>();
  return model->read(json, failure) ? std::move(model) : nullptr;
}

}  // namespace

std::unique_ptr<Model> make_word_piece(const Json& json, Failure* failure) { return make<WordPiece>(json, failure); }
std::unique_ptr<Model> make_word_level(const Json& json, Failure* failure) { return make<WordLevel>(json, failure); }
std::unique_ptr<Model> make_unigram(const Json& json, Failure* failure) { return make<Unigram>(json, failure); }

std::unique_ptr<Model> make_model(const Json& json, Failure* failure) {
  std::string type = json["type"].string_or("");
  // Files of old do not say which; what they have tells.
  if (type.empty() && json.has("merges")) type = "BPE";
  if (type.empty() && json["vocab"].is(Json::Type::Array)) type = "Unigram";
  if (type.empty() && json.has("continuing_subword_prefix")) type = "WordPiece";
  if (type == "BPE") return make_bpe(json, failure);
  if (type == "Unigram") return make_unigram(json, failure);
  if (type == "WordPiece") return make_word_piece(json, failure);
  if (type == "WordLevel") return make_word_level(json, failure);
  if (!json.is(Json::Type::Object)) {
    failure->set(Cause::TokenizerFile, "the file has no model");
  } else {
    failure->set(Cause::TokenizerPart, "the model '" + type + "' is not known");
  }
  return nullptr;
}

}  // namespace llm
}  // namespace etir
