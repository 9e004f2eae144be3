// The roles of a job, as one of their ranks finds them (spec 17.6).
#include "meshbus/roles.h"

#include <doctest/doctest.h>

#include <cstdlib>

using namespace meshbus;

TEST_CASE("roles: a role is found by its name, one that is not there is refused in words") {
  CHECK(own_role().empty());
  CHECK(roles().empty());
  CHECK(role("store").error().detail() ==
        "role 'store': this process is no rank of a job with roles");
  const std::string text = "store-13Se1Maqzryj[2]:tcp:h1:7420@proc=2/1";
  ::setenv("MESHBUS_ROLE", "train", 1);
  ::setenv("MESHBUS_ROLES", "store,train", 1);
  ::setenv("MESHBUS_ROLE_STORE", text.c_str(), 1);
  ::setenv("MESHBUS_ROLE_TRAIN", "nonsense", 1);
  CHECK(own_role() == "train");
  CHECK(roles() == std::vector<std::string>{"store", "train"});
  REQUIRE(role("store").has_value());
  CHECK(role("store")->to_string() == text);
  CHECK(role("stoer").error().code() == ErrorCode::not_exist);
  CHECK(role("stoer").error().detail() == "role 'stoer': the roles of this job are store,train");
  CHECK(role("train").error().code() == ErrorCode::parse_error);
  // Other letters lead to the same variable, and a variable of a role to another thing.
  CHECK(role("STORE").error().code() == ErrorCode::not_exist);
  CHECK(role("store_ADDR").error().code() == ErrorCode::not_exist);
  for (const char* name :
       {"MESHBUS_ROLE", "MESHBUS_ROLES", "MESHBUS_ROLE_STORE", "MESHBUS_ROLE_TRAIN"})
    ::unsetenv(name);
}
