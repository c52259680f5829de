// Damaged files for tokenizers, chats and sessions: etir_llm_fuzz SEED COUNT FOLDER TOKENIZER.json... [MODEL.pte]
//
// Each turn changes some bytes of a file, loads it, and uses what was loaded: everything is refused or works, and the
// sanitizers that this is built with have nothing to say. FOLDER is for files that it writes.
// test/runtime/tools/test_llm_fuzz.py runs it.
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>

#include "llm/chat.h"
#include "llm/grammar.h"
#include "llm/sampler.h"
#include "llm/session.h"

using namespace etir::llm;

namespace {

uint64_t state = 0;
uint64_t next(uint64_t below) {
  state = state * 6364136223846793005u + 1442695040888963407u;
  return (state >> 33) % below;
}

std::string read(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
}

std::string damaged(std::string data) {
  static const char* kWords[] = {"null",     "-1",      "[]",  "{}",    "\"\"",        "1e999",
                                 "99999999", "\\ud800", "(?:", "{1,9}", "\"Sequence\""};
  for (uint64_t i = next(6) + 1; i-- > 0 && !data.empty();) {
    const size_t at = next(data.size());
    switch (next(5)) {
      case 0:
        data[at] = static_cast<char>(next(256));
        break;
      case 1:
        data.erase(at, next(20));
        break;
      case 2:
        data.insert(at, kWords[next(std::size(kWords))]);
        break;
      case 3:
        data.insert(at, data.substr(next(data.size()), next(60)));
        break;
      default:
        if (next(8) == 0) data.resize(at);
    }
  }
  return data;
}

std::string noise() {
  std::string text;
  for (uint64_t i = next(60); i-- > 0;) {
    switch (next(4)) {
      case 0:
        text += static_cast<char>(next(256));
        break;
      case 1:
        text += "  \n";
        break;
      case 2:
        text += "<|end|>";
        break;
      default:
        text += "word\xE4\xB8\xAD\xF0\x9F\x98\x80 1234's";
    }
  }
  return text;
}

void use(const Tokenizer& tokenizer) {
  for (int i = 0; i < 4; ++i) {
    std::vector<int32_t> ids;
    Failure failure;
    if (!tokenizer.encode(noise(), {next(2) == 0, next(2) == 0}, &ids, &failure)) continue;
    for (uint64_t n = next(6); n-- > 0;) ids.push_back(static_cast<int32_t>(next(2000)) - 5);
    tokenizer.decode(ids, next(2) == 0);
    DecodeStream stream = tokenizer.stream(next(2) == 0);
    for (const int32_t id : ids) stream.push(id);
    stream.flush();
  }
}

void sample() {
  std::vector<float> logits(next(50) + 1);
  for (float& logit : logits) logit = static_cast<float>(next(200)) / 10 - 10;
  if (next(9) == 0) logits[next(logits.size())] = std::strtof(next(2) == 0 ? "nan" : "-inf", nullptr);
  Sampling sampling;
  sampling.temperature = static_cast<double>(next(30)) / 10;
  sampling.top_k = static_cast<int32_t>(next(60));
  sampling.top_p = static_cast<double>(next(10) + 1) / 10;
  sampling.min_p = static_cast<double>(next(10)) / 10;
  sampling.repetition_penalty = 1.3;
  sampling.seed = next(99);
  Sampler sampler(sampling);
  std::vector<int32_t> recent;
  for (uint64_t n = next(80); n-- > 0;) recent.push_back(static_cast<int32_t>(next(60)));
  int32_t id = 0;
  Failure failure;
  if (sampler.choose(logits.data(), logits.size(), recent, nullptr, &id, &failure) &&
      static_cast<size_t>(id) >= logits.size()) {
    std::abort();
  }
  StopStrings stops({"\n\n", "</s>", noise()});
  for (int i = 0; i < 4; ++i) stops.push(noise());
  stops.flush();
}

int session(const std::string& path, const std::string& folder, long count) {
  Failure failure;
  const auto model = LanguageModel::load(path, {}, &failure);
  const auto held = model == nullptr ? nullptr : model->session(&failure);
  GenerateOptions options;
  options.max_tokens = 8;
  options.json = true;
  const auto answer = held == nullptr ? nullptr : held->generate({3, 4, 5}, options, &failure);
  if (answer == nullptr) return std::fprintf(stderr, "%s\n", failure.message.c_str()), 1;
  for (Token token; answer->next(&token, &failure);) {
  }
  const std::string saved = folder + "/saved", bad = folder + "/bad";
  if (!held->save(saved, &failure)) return std::fprintf(stderr, "%s\n", failure.message.c_str()), 1;
  const std::string data = read(saved);
  for (long turn = 0; turn < count; ++turn) {
    std::ofstream(bad, std::ios::binary) << damaged(data);
    Failure refused;
    held->restore(bad, &refused);
    std::ofstream(bad, std::ios::binary) << damaged(read(path));
    Failure damage;
    LanguageModel::load(bad, {}, &damage);
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 5) return 2;
  state = std::strtoull(argv[1], nullptr, 10);
  const long count = std::atol(argv[2]);
  for (int file = 4; file < argc; ++file) {
    const std::string path = argv[file];
    if (path.size() > 4 && path.compare(path.size() - 4, 4, ".pte") == 0) {
      if (session(path, argv[3], count / 10 + 1) != 0) return 1;
      continue;
    }
    const std::string data = read(path);
    long loaded = 0;
    for (long turn = 0; turn < count; ++turn) {
      Failure failure;
      const auto tokenizer = Tokenizer::parse(turn == 0 ? data : damaged(data), &failure);
      if ((tokenizer == nullptr) == failure.ok()) std::abort();
      if (tokenizer != nullptr) {
        use(*tokenizer);
        if (++loaded % 20 == 1) json_grammar(std::make_shared<TokenBytes>(*tokenizer));
      }
      const auto chat = Chat::parse(damaged(R"({"segments":{"begin":"a","first":"b","generation":"g","roles":{"user":)"
                                            R"({"before":"<","after":">","strip":true}}},"eos_ids":[1,2]})"),
                                    &failure);
      std::string text;
      if (chat != nullptr) chat->render({{"user", noise()}, {"system", noise()}}, true, &text, &failure);
      sample();
    }
    std::printf("%s: %ld of %ld were read\n", argv[file], loaded, count);
  }
  return 0;
}
