#include "cli/support/name_problem.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "meshbus/name.h"

using namespace meshbus;
using namespace meshbus::cli;

TEST_CASE("name_problem: what is wrong with a name, and one that would do") {
  CHECK(name_problem("--name", "train_2").empty());
  CHECK(name_problem("--name", "").starts_with("--name is empty"));
  CHECK(name_problem("--name", "zz-later") ==
        "--name zz-later: a name has no '-', which stands before the id that meshbus adds "
        "(train-13Se1Maqzryj); this one would do: zz_later");
  CHECK(name_problem("--name", "2nd") ==
        "--name 2nd: a name has letters, digits and '_', and begins with no digit; this one would "
        "do: _2nd");
  CHECK(name_problem("--name", "service") ==
        "--name service: meshbus itself uses this name; choose another one");
  CHECK(name_problem("--name", std::string(64, 'a')).find("at most 63 characters") !=
        std::string::npos);
}

TEST_CASE("name_problem: the name that it proposes is one") {
  const std::vector<std::string> names = {"a b", "ä", "-", "9", "train.py", std::string(80, '-')};
  for (const auto& name : names) {
    CAPTURE(name);
    const auto problem = name_problem("NAME", name);
    const auto at = problem.rfind(": ");
    REQUIRE(at != std::string::npos);
    CHECK(Name::make(problem.substr(at + 2)));
  }
}
