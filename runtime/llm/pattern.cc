#include "llm/pattern.h"

namespace etir {
namespace llm {

void replace_all(std::string* text, std::string_view from, std::string_view to) {
  if (from.empty()) return;
  std::string out;
  size_t at = 0;
  for (size_t found; (found = text->find(from, at)) != std::string::npos; at = found + from.size()) {
    out.append(*text, at, found - at).append(to);
  }
  *text = out.append(*text, at, std::string::npos);
}

bool Pattern::read(const Json& json, Failure* failure) {
  text = json["String"].string_or("");
  if (!json.has("Regex")) return true;
  regex = Regex::compile(json["Regex"].string_or(""), true, failure);
  return regex != nullptr;
}

bool Replacement::read(const Json& json, Failure* failure) {
  content_ = json["content"].string_or("");
  return pattern_.read(json["pattern"], failure);
}

bool Replacement::apply(std::string* text, Failure* failure) const {
  if (pattern_.regex == nullptr) {
    replace_all(text, pattern_.text, content_);
    return true;
  }
  std::vector<Regex::Match> matches;
  if (!pattern_.regex->find_all(*text, &matches, failure)) return false;
  std::string out;
  size_t at = 0;
  for (const Regex::Match& match : matches) {
    out.append(*text, at, match.begin - at).append(content_);
    at = match.end;
  }
  *text = out.append(*text, at, std::string::npos);
  return true;
}

}  // namespace llm
}  // namespace etir
