// Names, sizes and variables of roles (spec 17.6).
#include "cli/run/job_plan.h"

#include <doctest/doctest.h>

#include <map>

#include "cli/run/ready_lines.h"
#include "cli/run/role_variables.h"
#include "meshbus/roles.h"

using namespace meshbus;
using cli::RoleArguments;

namespace {

RoleArguments a_program(const std::string& program, const std::string& name = {}) {
  RoleArguments role;
  role.command = {program};
  role.name = name;
  return role;
}

}  // namespace

TEST_CASE("job_plan: roles of one program are told apart, names that were said stay") {
  std::vector<RoleArguments> roles{a_program("/bin/sh"), a_program("sh", "store"), a_program("sh"),
                                   a_program("sh")};
  REQUIRE(cli::name_roles(roles).has_value());
  CHECK(roles[0].name == "sh");
  CHECK(roles[1].name == "store");
  CHECK(roles[2].name == "sh_2");
  CHECK(roles[3].name == "sh_3");
}

TEST_CASE("job_plan: a mesh has the name of its program, in Python of the script") {
  const auto name = [](std::vector<std::string> command) {
    RoleArguments role;
    role.command = std::move(command);
    return cli::mesh_name(role);
  };
  CHECK(name({"./bin/solver.x", "--fast"}) == "solver");
  CHECK(name({"sh", "-c", "python3 train.py"}) == "sh");
  CHECK(name({"python3", "-u", "work/train.py", "--lr", "1"}) == "train");
  CHECK(name({"/usr/bin/python3.11", "-m", "models.eval"}) == "eval");
  CHECK(name({"python3", "-c", "print(1)", "x.py"}) == "python3");
  CHECK(name({"python3"}) == "python3");
}

TEST_CASE("job_plan: names that are equal, or give equal variables, are refused") {
  const auto problem_of = [](std::vector<RoleArguments> roles) {
    const auto named = cli::name_roles(roles);
    REQUIRE_FALSE(named.has_value());
    return named.error().detail();
  };
  CHECK(problem_of({a_program("a", "x"), a_program("b", "x")}) ==
        "two roles have the name 'x': give one of them another --name");
  CHECK(problem_of({a_program("a", "Store"), a_program("b", "store")}).find("MESHBUS_ROLE_STORE") !=
        std::string::npos);
  CHECK(problem_of({a_program("a", "store"), a_program("b", "store_port")})
            .find("MESHBUS_ROLE_STORE_PORT") != std::string::npos);
}

TEST_CASE("role_variables: a rank finds each role by name") {
  const auto mesh = [](const std::string& name, const std::string& hosts) {
    return *ProcMeshRef::parse(name + "-13Se1Maqzryj[2]:" + hosts + "@proc=2/1");
  };
  const auto variables =
      cli::role_variables({{"store", mesh("store", "tcp:h1:7420"), 5000},
                           {"actor", mesh("actor", "tcp:h2:7420,tcp:h3:7420"), 6000}},
                          1);
  const std::map<std::string, std::string> all(variables.begin(), variables.end());
  CHECK(all.at("MESHBUS_ROLE") == "actor");
  CHECK(all.at("MESHBUS_ROLES") == "store,actor");
  CHECK(all.at("MESHBUS_LISTEN_PORT") == "6000");
  CHECK(all.at("MESHBUS_ROLE_STORE_ADDR") == "h1");
  CHECK(all.at("MESHBUS_ROLE_STORE_PORT") == "5000");
  CHECK(all.at("MESHBUS_ROLE_ACTOR_HOSTS") == "h2,h3");
  CHECK(all.at(role_variable("store")) == "store-13Se1Maqzryj[2]:tcp:h1:7420@proc=2/1");
}

TEST_CASE("ready_lines: each rank is ready once, by the text that was said") {
  cli::ReadyLines lines("listening", 2);
  CHECK_FALSE(lines.is_ready_now(0, "starting\n"));
  CHECK(lines.is_ready_now(1, "a\nnow listening on 1\n"));
  CHECK_FALSE(lines.is_ready_now(1, "listening\n"));
  CHECK(lines.is_ready_now(0, "listening\n"));
  CHECK(lines.is_ready_now(2, "listening\n"));  // a rank that came later
  CHECK_FALSE(lines.is_ready_now(2, "listening\n"));
  cli::ReadyLines none("", 2);
  CHECK_FALSE(none.is_ready_now(0, "listening\n"));
}
