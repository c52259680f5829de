// Conversations as prompts, where there is no Jinja: the compiled form of a chat template.
//
// `model.chat.json` has it as `segments` (llm/template.py makes and checks it): fixed texts around each message.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "llm/failure.h"
#include "llm/json.h"

namespace etir {
namespace llm {

struct Message {
  std::string role, content;
};

class Chat {
 public:
  /// Reads a model.chat.json.
  static std::unique_ptr<Chat> load(const std::string& path, Failure* failure);
  static std::unique_ptr<Chat> parse(std::string_view json, Failure* failure);

  /// Whether there is a compiled template.
  bool has_template() const { return segments_.is(Json::Type::Object); }
  /// The prompt. Segments for a role that the template does not have, and without a template.
  bool render(const std::vector<Message>& messages, bool add_generation_prompt, std::string* text,
              Failure* failure) const;
  const std::vector<int64_t>& eos_ids() const { return eos_ids_; }

 private:
  Json segments_;
  std::vector<int64_t> eos_ids_;
};

}  // namespace llm
}  // namespace etir
