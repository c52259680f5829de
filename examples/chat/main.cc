// Talks with a language model: chat MODEL.pte TEXT
//
// model.tokenizer.json and model.chat.json stand beside model.pte; without a compiled chat template (`segments` in the
// second) the text goes on as it is.
#include <cstdio>
#include <string>

#include "llm/chat.h"
#include "llm/session.h"

int main(int argc, char** argv) {
  using namespace etir::llm;
  if (argc < 3) return std::fprintf(stderr, "chat MODEL.pte TEXT\n"), 2;
  const std::string path = argv[1];
  Failure failure, none;
  LanguageModel::Options options;
  const auto chat = Chat::load(path.substr(0, path.rfind('.')) + ".chat.json", &none);
  if (chat != nullptr) options.eos_ids = chat->eos_ids();
  std::string prompt = argv[2];
  if (chat != nullptr && chat->has_template()) chat->render({{"user", argv[2]}}, true, &prompt, &failure);

  const auto model = LanguageModel::load(path, options, &failure);
  const auto session = model != nullptr ? model->session(&failure) : nullptr;
  if (session != nullptr && model->tokenizer() == nullptr) failure.set(Cause::TokenizerFile, "there is no tokenizer");
  std::vector<int32_t> ids;
  std::shared_ptr<Generation> answer;
  if (failure.ok() && model->tokenizer()->encode(prompt, {}, &ids, &failure)) {
    GenerateOptions settings;
    settings.max_tokens = 200;
    answer = session->generate(ids, settings, &failure);
  }
  Token token;
  while (answer != nullptr && answer->next(&token, &failure)) {
    std::fputs(token.text.c_str(), stdout);
    std::fflush(stdout);
  }
  std::puts("");
  if (!failure.ok()) std::fprintf(stderr, "E%d: %s\n", static_cast<int>(failure.cause), failure.message.c_str());
  return failure.ok() ? 0 : 1;
}
