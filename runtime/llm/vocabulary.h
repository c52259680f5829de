// A vocabulary: tokens by id and ids by token.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "llm/failure.h"
#include "llm/json.h"

namespace etir {
namespace llm {

class Vocabulary {
 public:
  /// Ids may have gaps but are below this, so that no file asks for memory that it does not fill.
  static constexpr int32_t kMostIds = 1 << 24;

  bool add(std::string_view token, int32_t id, Failure* failure) {
    if (id < 0 || id >= kMostIds) {
      return failure->set(Cause::TokenizerFile,
                          "the id of token " + json_quoted(token) + " is no whole number from 0 on");
    }
    texts_.emplace_back(token);
    if (static_cast<size_t>(id) >= tokens_.size()) tokens_.resize(static_cast<size_t>(id) + 1, nullptr);
    tokens_[static_cast<size_t>(id)] = &texts_.back();
    ids_[texts_.back()] = id;
    return true;
  }
  int32_t id_of(std::string_view token) const {
    const auto found = ids_.find(token);
    return found == ids_.end() ? -1 : found->second;
  }
  const std::string* token_of(int32_t id) const {
    return id < 0 || static_cast<size_t>(id) >= tokens_.size() ? nullptr : tokens_[static_cast<size_t>(id)];
  }
  int32_t size() const { return static_cast<int32_t>(tokens_.size()); }

  /// An object of token to id.
  bool read(const Json& json, Failure* failure) {
    if (!json.is(Json::Type::Object)) return failure->set(Cause::TokenizerFile, "the model has no vocabulary");
    ids_.reserve(json.members.size());
    for (const auto& [token, id] : json.members) {
      if (!add(token, id.int_or(-1), failure)) return false;
    }
    return true;
  }

 private:
  std::deque<std::string> texts_;  // which never move
  std::vector<const std::string*> tokens_;
  std::unordered_map<std::string_view, int32_t> ids_;
};

}  // namespace llm
}  // namespace etir
