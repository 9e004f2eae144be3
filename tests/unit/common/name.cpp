#include "meshbus/name.h"

#include <doctest/doctest.h>

#include <random>
#include <set>
#include <unordered_set>
#include <vector>

#include "meshbus/key.h"
#include "tests/unit/mesh/random.h"

using namespace meshbus;

namespace {

std::string random_base(test::Random& random, std::size_t longest) {
  constexpr std::string_view letters =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789";
  std::string base(1 + random() % longest, 'x');
  for (char& c : base) c = letters[random() % letters.size()];
  base[0] = letters[random() % 53];
  return base;
}

}  // namespace

TEST_CASE("name: the spec's example parses and prints") {
  const Name name = Name::parse("trainers-13Se1Maqzryj").value();
  CHECK(name.base() == "trainers");
  CHECK(name.uuid().has_value());
  CHECK(name.to_string() == "trainers-13Se1Maqzryj");
  CHECK(Name::parse("trainers").value().is_plain());
  CHECK(Name::parse("service").value() == Name::service());
  CHECK(Name::make("n", 0).value().to_string() == "n-111111111111");
  CHECK(Name::make("n", 57).value().to_string() == "n-11111111111Z");
  CHECK(Name::make("n", ~std::uint64_t{0}).value().to_string() == "n-1JPwcyDCgEup");
}

TEST_CASE("name: made from the same base they never compare equal") {
  std::set<Name> ordered;
  std::unordered_set<Name> hashed;
  for (int i = 0; i < 10'000; ++i) {
    const Name name = Name::make("trainers").value();
    CHECK_FALSE(name.is_plain());
    ordered.insert(name);
    hashed.insert(name);
  }
  CHECK(ordered.size() == 10'000);
  CHECK(hashed.size() == 10'000);
}

TEST_CASE(
    "name: what was printed parses to the same name, and proc names give mesh and rank back") {
  test::for_cases(5'000, [&](test::Random& random) {
    const std::string base = random_base(random, Name::max_base);
    const Name name = random() % 4 == 0 || Name::is_reserved(base)
                          ? Name::plain(base).value()
                          : Name::make(base, test::any_number(random)).value();
    REQUIRE(Name::parse(name.to_string()) == name);
    const std::uint64_t rank = test::any_number(random);
    const ProcName proc = proc_name(name, rank);
    REQUIRE(ProcName::parse(proc.to_string()) == proc);
    REQUIRE(parse_proc_name(proc) == MeshProc{name, rank});
    REQUIRE(ProcName::parse(name.to_string()) == ProcName(name));
  });
}

TEST_CASE("name: no text crashes the parser, and what it accepts is canonical") {
  constexpr std::string_view letters = "a_1-Z0l \"\xC3\xA9";
  test::for_cases(5'000, [&](test::Random& random) {
    std::string text(random() % 20, 'x');
    for (char& c : text)
      c = random() % 16 == 0 ? static_cast<char>(random()) : letters[random() % letters.size()];
    if (const Result<Name> name = Name::parse(text)) REQUIRE(name->to_string() == text);
    if (const Result<ProcName> name = ProcName::parse(text)) REQUIRE(name->to_string() == text);
    if (const Result<MeshProc> proc = parse_proc_name(text))
      REQUIRE(proc_name(proc->mesh, proc->create_rank).to_string() == text);
  });
}

TEST_CASE("name: the create rank does not count towards the 63 characters") {
  const std::string base(63, 'a');
  const Name mesh = Name::make(base, 7).value();
  const ProcName proc = proc_name(mesh, ~std::uint64_t{0});
  CHECK(proc.to_string() == base + "_18446744073709551615-111111111118");
  CHECK(parse_proc_name(proc) == MeshProc{mesh, ~std::uint64_t{0}});
  CHECK_FALSE(Name::parse(proc.to_string()));
  CHECK_FALSE(ProcName::parse(base + "a_1"));
  CHECK_FALSE(ProcName::parse(base + "_01"));  // not a create rank, so it counts
  CHECK(proc_name(Name::parse("trainers-13Se1Maqzryj").value(), 3).to_string() ==
        "trainers_3-13Se1Maqzryj");
}

TEST_CASE("name: bad texts are refused with variant and position") {
  struct Row {
    std::string text;
    std::string_view detail;
  };
  const std::vector<Row> rows = {
      {"", "name: at 0: MissingName"},
      {"-", "name: at 0: MissingName"},
      {"-13Se1Maqzryj", "name: at 0: MissingName"},
      {"foo-", "name: at 4: MissingUuid"},
      {"foo-13Se", "name: at 8: InvalidUuid: expected 12 base58 characters, found the end"},
      {"foo-13Se1Maqzryj1",
       "name: at 16: InvalidUuid: expected the end after 12 base58 characters, found '1'"},
      {"foo-13Se1Maqzry0", "name: at 15: InvalidUuid: expected a base58 character"},
      {"foo-13Se1Maqzryl", "name: at 15: InvalidUuid"},
      {"foo-ZZZZZZZZZZZZ", "name: at 4: InvalidUuid: expected a number of 64 bits"},
      {"foo-1JPwcyDCgEuq", "name: at 4: InvalidUuid: expected a number of 64 bits"},
      {"3foo",
       "name: at 0: InvalidName: expected a letter or '_', then letters, digits and '_', found "
       "'3'"},
      {"foo bar", "name: at 3: InvalidName: expected a letter, a digit or '_', found ' '"},
      {"a-b-13Se1Maqzryj", "name: at 1: InvalidName: expected a letter, a digit or '_', found '-'"},
      {"f\xC3\xA9", "name: at 1: InvalidName: expected a letter, a digit or '_', found '\xC3\xA9'"},
      {"f\xFF", "name: at 1: InvalidName: expected a letter, a digit or '_', found byte 0xff"},
      {std::string("f\0", 2),
       "name: at 1: InvalidName: expected a letter, a digit or '_', found '\\u{0}'"},
      {std::string(64, 'a'),
       "name: at 63: InvalidName: expected a base of at most 63 characters, found 64"},
      {"agent-13Se1Maqzryj",
       "name: at 0: InvalidName: expected a base that is not reserved, found 'agent'"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.text);
    const Result<Name> name = Name::parse(row.text);
    REQUIRE_FALSE(name);
    CHECK(name.error().code() == ErrorCode::parse_error);
    CHECK(name.error().detail().substr(0, row.detail.size()) == row.detail);
  }
  CHECK(Name::make("agent").error().detail().find("InvalidName") != std::string::npos);
  CHECK(Name::make("").error().detail().find("MissingName") != std::string::npos);
  CHECK(Name::make("a-b").error().detail().find("InvalidName") != std::string::npos);
  for (const char* text : {"service", "client-13Se1Maqzryj", "a_", "_3", "a_03",
                           "a_18446744073709551616", "agent_3-13Se1Maqzryj"}) {
    CAPTURE(text);
    CHECK_FALSE(parse_proc_name(text));
  }
}

TEST_CASE("key: stable, spread, and never 0") {
  CHECK(key_of("tcp:h1:7420") == key_of(std::string("tcp:h1:7420")));
  static_assert(key_of("") != 0);
  // Golden values: envelopes carry these between machines and releases.
  CHECK(key_of("") == 0xefd01f60ba992926U);
  CHECK(key_of("tcp:h1:7420") == 0xab398888e0221991U);
  CHECK(key_of("tcp:h1:7420,trainers_3-13Se1Maqzryj") == 0x14dc8b6b7d7a0516U);
}
