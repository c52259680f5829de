#include "llm/tokenizer.h"

#include <algorithm>

#include "llm/text.h"
#include "llm/unicode.h"
#include "llm/vocabulary.h"
#include "platform/host_memory.h"

namespace etir {
namespace llm {

std::unique_ptr<Tokenizer> Tokenizer::load(const std::string& path, Failure* failure) {
  host::Status status;
  const host::Bytes bytes = host::read_file(path, &status);
  if (bytes.data == nullptr) {
    failure->set(Cause::TokenizerFile, status.message);
    return nullptr;
  }
  return parse(std::string_view(static_cast<const char*>(bytes.data), bytes.size), failure);
}

std::unique_ptr<Tokenizer> Tokenizer::parse(std::string_view text, Failure* failure) {
  std::unique_ptr<Tokenizer> tokenizer(new Tokenizer());
  {
    Json json;
    std::string wrong;
    if (!Json::parse(text, &json, &wrong)) {
      failure->set(Cause::TokenizerFile, "the file is no JSON: " + wrong);
      return nullptr;
    }
    if (!tokenizer->read(json, failure)) return nullptr;
  }
  // The tree of a large vocabulary takes as much as a tenth of a small model; nothing is that large afterwards.
  host::return_freed_memory();
  return tokenizer;
}

bool Tokenizer::read(const Json& json, Failure* failure) {
  if (!json["model"].is(Json::Type::Object)) {
    return failure->set(Cause::TokenizerFile, "the file has no member 'model': it is no tokenizer");
  }
  model_ = make_model(json["model"], failure);
  if (model_ == nullptr) return false;
  normalizer_ = make_normalizer(json["normalizer"], failure);
  pre_tokenizer_ = make_pre_tokenizer(json["pre_tokenizer"], failure);
  decoder_ = make_decoder(json["decoder"], failure);
  if (!failure->ok() || !make_frame(json["post_processor"], &frame_, failure)) return false;
  if (!read_added(json["added_tokens"], failure)) return false;
  for (const std::vector<int32_t>* ids : {&frame_.before, &frame_.after}) {
    for (const int32_t id : *ids) {
      if (token_of(id) == nullptr) {
        return failure->set(Cause::TokenizerFile, "the post-processor adds token " + std::to_string(id) +
                                                      ", which the vocabulary does not have");
      }
    }
  }
  return true;
}

bool Tokenizer::read_added(const Json& json, Failure* failure) {
  size_ = model_->size();
  for (const Json& row : json.items) {
    auto added = std::make_unique<Added>();
    added->content = row["content"].string_or("");
    added->id = row["id"].int_or(-1);
    if (added->content.empty()) continue;
    if (added->id < 0 || added->id >= Vocabulary::kMostIds) {
      return failure->set(Cause::TokenizerFile, "the added token " + json_quoted(added->content) + " has no id");
    }
    added->special = row["special"].bool_or(false);
    added->single_word = row["single_word"].bool_or(false);
    added->left = row["lstrip"].bool_or(false);
    added->right = row["rstrip"].bool_or(false);
    added->normalized = row["normalized"].bool_or(!added->special);
    // The vocabulary's own id stands, as in the package.
    const int32_t known = model_->id_of(added->content);
    if (known >= 0) added->id = known;
    size_ = std::max(size_, added->id + 1);
    std::string text = added->content;
    if (added->normalized && normalizer_ != nullptr && !normalizer_->apply(&text, failure)) return false;
    if (!text.empty()) {
      Finder& finder = added->normalized ? normalized_finder_ : raw_finder_;
      finder.empty = false;
      finder.by_byte[static_cast<unsigned char>(text[0])].emplace_back(text, added.get());
    }
    added_by_id_[added->id] = added.get();
    added_by_text_[added->content] = added->id;
    added_.push_back(std::move(added));
  }
  for (Finder* finder : {&raw_finder_, &normalized_finder_}) {
    for (auto& row : finder->by_byte) {
      std::stable_sort(row.begin(), row.end(),
                       [](const auto& a, const auto& b) { return a.first.size() > b.first.size(); });
    }
  }
  return true;
}

std::vector<Tokenizer::Part> Tokenizer::find_added(const Finder& finder, const Part& part, bool parse_special) const {
  if (finder.empty || part.id >= 0) return {part};
  const std::string& text = part.text;
  std::vector<Part> parts;
  size_t begin = 0;
  const auto plain = [&](size_t end) {
    if (end > begin) parts.push_back({text.substr(begin, end - begin), -1, part.first && begin == 0});
  };
  for (size_t at = 0; at < text.size();) {
    const Added* found = nullptr;
    size_t size = 0;
    for (const auto& [content, added] : finder.by_byte[static_cast<unsigned char>(text[at])]) {
      if (!parse_special && added->special) continue;
      if (text.compare(at, content.size(), content) != 0) continue;
      found = added;
      size = content.size();
      break;
    }
    size_t first = at, last = at + size, length = 0;
    if (found != nullptr && found->single_word) {
      // The package asks another library here than in patterns, to which joiners of letters belong to words.
      const auto joins = [](uint32_t point) { return is_word(point) || point == 0x200C || point == 0x200D; };
      const bool left = first > 0 && joins(decode_utf8(text, previous_utf8(text, first), &length));
      const bool right = last < text.size() && joins(decode_utf8(text, last, &length));
      if (left || right) {
        at = last;
        continue;
      }
    }
    if (found == nullptr) {
      ++at;
      continue;
    }
    while (found->left && first > begin) {
      const size_t before = previous_utf8(text, first);
      if (before < begin || !is_space(decode_utf8(text, before, &length))) break;
      first = before;
    }
    while (found->right && last < text.size() && is_space(decode_utf8(text, last, &length))) last += length;
    plain(first);
    parts.push_back({text.substr(first, last - first), found->id, false});
    begin = at = last;
  }
  plain(text.size());
  return parts;
}

bool Tokenizer::encode(std::string_view text, const EncodeOptions& options, std::vector<int32_t>* ids,
                       Failure* failure) const {
  if (options.add_special_tokens) ids->insert(ids->end(), frame_.before.begin(), frame_.before.end());
  Part whole{repair_utf8(text), -1, true};
  for (Part& outer : find_added(raw_finder_, whole, options.parse_special)) {
    if (outer.id >= 0) {
      ids->push_back(outer.id);
      continue;
    }
    if (normalizer_ != nullptr && !outer.text.empty()) {
      // What begins the text and goes away takes the beginning with it.
      std::string begin = outer.text.substr(0, utf8_length(outer.text[0]));
      if (!normalizer_->apply(&begin, failure) || !normalizer_->apply(&outer.text, failure)) return false;
      outer.first = outer.first && !begin.empty();
    }
    for (Part& part : find_added(normalized_finder_, outer, options.parse_special)) {
      if (part.id >= 0) {
        ids->push_back(part.id);
        continue;
      }
      if (part.text.empty()) continue;
      std::vector<Piece> pieces = {{std::move(part.text), part.first}};
      if (pre_tokenizer_ != nullptr && !pre_tokenizer_->apply(&pieces, failure)) return false;
      for (const Piece& piece : pieces) {
        if (!model_->encode(piece.text, ids, failure)) return false;
      }
    }
  }
  if (options.add_special_tokens) ids->insert(ids->end(), frame_.after.begin(), frame_.after.end());
  return true;
}

int32_t Tokenizer::id_of(std::string_view token) const {
  const auto found = added_by_text_.find(std::string(token));
  return found != added_by_text_.end() ? found->second : model_->id_of(token);
}

const std::string* Tokenizer::token_of(int32_t id) const {
  const auto found = added_by_id_.find(id);
  return found != added_by_id_.end() ? &found->second->content : model_->token_of(id);
}

bool Tokenizer::is_special(int32_t id) const {
  const auto found = added_by_id_.find(id);
  return found != added_by_id_.end() && found->second->special;
}

std::vector<std::string> Tokenizer::tokens_of(const std::vector<int32_t>& ids, bool skip_special_tokens) const {
  std::vector<std::string> tokens;
  for (const int32_t id : ids) {
    const std::string* token = token_of(id);
    if (token != nullptr && !(skip_special_tokens && is_special(id))) tokens.push_back(*token);
  }
  return tokens;
}

std::string Tokenizer::raw(const std::vector<int32_t>& ids, bool skip_special_tokens) const {
  std::vector<std::string> tokens = tokens_of(ids, skip_special_tokens);
  std::string text;
  if (decoder_ != nullptr) decoder_->apply(&tokens);
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (i > 0 && decoder_ == nullptr) text += ' ';
    text += tokens[i];
  }
  return text;
}

std::string Tokenizer::decode(const std::vector<int32_t>& ids, bool skip_special_tokens) const {
  return repair_utf8(raw(ids, skip_special_tokens));
}

std::string Tokenizer::bytes_of(int32_t id) const {
  const std::string* token = token_of(id);
  if (token == nullptr) return "";
  if (decoder_ != nullptr && decoder_->plain_bytes()) return raw({id}, false);
  const int byte = token_byte(*token);
  if (byte >= 0) return std::string(1, static_cast<char>(byte));
  // Decoders treat the first token of a text in their own ways: take what a second one adds.
  const std::string once = raw({id}, false), twice = raw({id, id}, false);
  return twice.size() >= once.size() && twice.compare(0, once.size(), once) == 0 ? twice.substr(once.size()) : once;
}

// --- streams --------------------------------------------------------------------------------------------------------

DecodeStream::DecodeStream(const Tokenizer* tokenizer, bool skip_special_tokens)
    : tokenizer_(tokenizer), skip_(skip_special_tokens) {
  const Decoder* decoder = tokenizer->decoder_.get();
  bytes_ = decoder != nullptr && decoder->plain_bytes();
  if (decoder != nullptr && decoder->byte_fallback()) marker_ = tokenizer->id_of("<0x41>");
}

DecodeStream Tokenizer::stream(bool skip_special_tokens) const { return DecodeStream(this, skip_special_tokens); }

std::string DecodeStream::push(int32_t id) {
  if (skip_ && tokenizer_->is_special(id)) return "";
  if (bytes_) {
    waiting_ += tokenizer_->raw({id}, skip_);
    const size_t rest = incomplete_utf8(waiting_);
    const std::string text = repair_utf8(std::string_view(waiting_).substr(0, waiting_.size() - rest));
    waiting_.erase(0, waiting_.size() - rest);
    return text;
  }
  if (marker_ < 0) return window(id);
  const std::string* token = tokenizer_->token_of(id);
  const int byte = token == nullptr ? -1 : token_byte(*token);
  if (byte < 0) {
    const std::string before = end_bytes();
    return before + window(id);
  }
  waiting_.push_back(static_cast<char>(byte));
  return incomplete_utf8(waiting_) > 0 ? "" : end_bytes();
}

std::string DecodeStream::end_bytes() {
  if (waiting_.empty()) return "";
  bool valid = true;
  std::string text = repair_utf8(waiting_, &valid);
  if (!valid) {
    text.clear();
    for (size_t i = 0; i < waiting_.size(); ++i) append_utf8(kReplacement, &text);
  }
  waiting_.clear();
  // What comes next is not the first of a text.
  ids_ = {marker_};
  out_ = 1;
  before_ = tokenizer_->decode(ids_, skip_);
  return text;
}

/// The window's first part gives the decoder what it needs to know of the text before: how a token's text begins
/// depends on whether one is before it.
std::string DecodeStream::window(int32_t id) {
  ids_.push_back(id);
  const std::string text = tokenizer_->decode(ids_, skip_);
  static constexpr char kHalf[] = "\xEF\xBF\xBD";
  const bool half = text.size() >= 3 && text.compare(text.size() - 3, 3, kHalf) == 0;
  if (half && ids_.size() - out_ < 4) return "";
  if (text.size() <= before_.size()) return "";
  const std::string piece = text.substr(before_.size());
  ids_.erase(ids_.begin(), ids_.begin() + static_cast<ptrdiff_t>(out_));
  out_ = ids_.size();
  before_ = tokenizer_->decode(ids_, skip_);
  return repair_utf8(piece);
}

std::string DecodeStream::flush() {
  std::string text;
  if (bytes_) {
    text = repair_utf8(waiting_);
  } else if (!waiting_.empty()) {
    text = end_bytes();
  } else {
    const std::string all = tokenizer_->decode(ids_, skip_);
    if (all.size() > before_.size()) text = repair_utf8(all.substr(before_.size()));
  }
  waiting_.clear();
  ids_.clear();
  before_.clear();
  out_ = 0;
  return text;
}

}  // namespace llm
}  // namespace etir
