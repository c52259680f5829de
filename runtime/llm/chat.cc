#include "llm/chat.h"

#include "llm/text.h"
#include "llm/unicode.h"
#include "platform/host_memory.h"

namespace etir {
namespace llm {

namespace {

/// As Python's str.strip(), which also takes the controls that separate records.
std::string stripped(std::string_view text) {
  const auto space = [](uint32_t point) { return is_space(point) || (point >= 0x1C && point <= 0x1F); };
  size_t begin = 0, end = text.size(), length = 0;
  while (begin < end && space(decode_utf8(text, begin, &length))) begin += length;
  while (end > begin) {
    const size_t last = previous_utf8(text, end);
    if (!space(decode_utf8(text, last, &length))) break;
    end = last;
  }
  return std::string(text.substr(begin, end - begin));
}

}  // namespace

std::unique_ptr<Chat> Chat::load(const std::string& path, Failure* failure) {
  host::Status status;
  const host::Bytes bytes = host::read_file(path, &status);
  if (bytes.data == nullptr) {
    failure->set(Cause::ChatFile, status.message);
    return nullptr;
  }
  return parse(std::string_view(static_cast<const char*>(bytes.data), bytes.size), failure);
}

std::unique_ptr<Chat> Chat::parse(std::string_view text, Failure* failure) {
  Json json;
  std::string wrong;
  if (!Json::parse(text, &json, &wrong) || !json.is(Json::Type::Object)) {
    failure->set(Cause::ChatFile, wrong.empty() ? "the description of the chat is no object"
                                                : "the description of the chat is no JSON: " + wrong);
    return nullptr;
  }
  auto chat = std::make_unique<Chat>();
  chat->segments_ = json["segments"];
  for (const Json& id : json["eos_ids"].items) chat->eos_ids_.push_back(id.int_or(-1));
  return chat;
}

bool Chat::render(const std::vector<Message>& messages, bool add_generation_prompt, std::string* text,
                  Failure* failure) const {
  if (!has_template()) return failure->set(Cause::Segments, "the description of the chat has no compiled template");
  *text = segments_["begin"].text;
  if (messages.empty() || messages[0].role != "system") *text += segments_["first"].text;
  for (size_t i = 0; i < messages.size(); ++i) {
    const Json& role = segments_["roles"][messages[i].role];
    if (role.is_null() || (messages[i].role == "system" && i > 0)) {
      return failure->set(Cause::Segments, "the compiled template has no place for message " + std::to_string(i) +
                                               " of role '" + messages[i].role + "'");
    }
    const std::string content = repair_utf8(messages[i].content);
    *text += role["before"].text + (role["strip"].boolean ? stripped(content) : content) + role["after"].text;
  }
  if (add_generation_prompt) *text += segments_["generation"].text;
  return true;
}

}  // namespace llm
}  // namespace etir
