// From logits to a token, and from tokens to the end of an answer: sampling, stop strings.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "llm/failure.h"

namespace etir {
namespace llm {

/// How tokens are chosen. The order is that of transformers: penalty, temperature, top-k, top-p, min-p.
struct Sampling {
  double temperature = 0;          ///< 0: the most likely token, always; at most 100
  int32_t top_k = 0;               ///< only the k most likely; 0: all
  double top_p = 1;                ///< only the most likely that together have this probability, in (0, 1]
  double min_p = 0;                ///< only those with at least this part of the highest probability, in [0, 1]
  double repetition_penalty = 1;   ///< logits of tokens in the window are divided by it, negative ones multiplied; > 0
  int32_t repetition_window = 64;  ///< tokens of the answer that count, each once; the prompt never does
  uint64_t seed = 0;

  bool check(Failure* failure) const;
};

/// Chooses tokens. Numbers come from SplitMix64 (Steele, Lea and Flood, 2014): a seed gives one sequence everywhere.
class Sampler {
 public:
  explicit Sampler(const Sampling& sampling) : sampling_(sampling), state_(sampling.seed) {}
  /// A token of `logits`, `size` > 0 of them. `recent` are the tokens of the answer so far; `allowed`, a byte for each
  /// token, may be null. NanLogits with the position when a logit is no finite number (-inf is: never this token).
  bool choose(const float* logits, size_t size, const std::vector<int32_t>& recent, const uint8_t* allowed, int32_t* id,
              Failure* failure);
  /// The next number of the sequence, in [0, 1).
  double uniform();

 private:
  struct Candidate {
    float logit;
    int32_t id;
    double weight;
  };
  Sampling sampling_;
  uint64_t state_;
  std::vector<float> scaled_;
  std::vector<Candidate> candidates_;
};

/// Looks for texts that end an answer. A part of one at the end of the text is held back until it is certain.
class StopStrings {
 public:
  explicit StopStrings(std::vector<std::string> stops);
  /// Adds text; returns what is certainly of the answer. After a stop was found all is empty.
  std::string push(std::string_view text);
  /// What was held back, which is of the answer when it ends for another reason.
  std::string flush();
  bool found() const { return found_; }

 private:
  std::vector<std::string> stops_;
  std::string held_;
  bool found_ = false;
};

}  // namespace llm
}  // namespace etir
