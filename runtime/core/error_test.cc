#include "core/error.h"

#include <set>
#include <string>

#include "testing/testing.h"

namespace etir {
namespace {

struct Row {
  Check check;
  int number;
  Error error;
  std::string sentence;
};

const Row kRows[] = {
#define ETIR_CHECK(name, number, error, sentence) {Check::name, number, Error::error, sentence},
#include "core/checks.def"
#undef ETIR_CHECK
};

ETIR_TEST(checks_have_categories_and_numbers_of_their_own) {
  std::set<int> numbers;
  for (const Row& row : kRows) {
    CHECK(numbers.insert(row.number).second);
    CHECK_EQ(error_of(row.check), row.error);
    CHECK(row.error != Error::Ok && row.error != Error::Internal);
    ErrorRecord record;
    record.check = row.check;
    CHECK_EQ(record.error(), row.error);
  }
  CHECK_EQ(ErrorRecord().error(), Error::Ok);
  CHECK_EQ(error_of(static_cast<Check>(9999)), Error::Internal);
}

// Whatever reads the sentences knows these placeholders, and no other brace.
ETIR_TEST(sentences_have_known_placeholders) {
  for (const Row& row : kRows) {
    std::string text = row.sentence;
    for (const std::string place : {"{a}", "{b}", "{op}"}) {
      for (size_t at = text.find(place); at != std::string::npos; at = text.find(place)) text.erase(at, place.size());
    }
    CHECK_EQ(text.find_first_of("{}"), std::string::npos);
    CHECK(!row.sentence.empty() && row.sentence.back() != '.');
  }
}

ETIR_TEST(a_result_is_a_value_or_an_error) {
  const Result<int> value(7);
  CHECK(value.ok() && *value == 7);
  CHECK_EQ(value.error(), Error::Ok);
  const Result<int> error(Error::NotFound);
  CHECK(!error.ok());
  CHECK_EQ(error.error(), Error::NotFound);
  CHECK_EQ(Result<int>(Error::Ok).error(), Error::Internal);  // no value came with it
}

}  // namespace
}  // namespace etir
