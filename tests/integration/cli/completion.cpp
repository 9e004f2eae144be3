// Completion of command lines, `help`, and manual pages (spec 12.8).
#include <doctest/doctest.h>

#include <algorithm>
#include <csignal>
#include <filesystem>

#include "tests/support/golden.h"
#include "tests/world/command_line.h"

using namespace meshbus::test;

namespace {

/// What bash offers for a line that ends at the cursor, by the script of `meshbus completion`.
Words offered(const std::string& line) {
  const std::string script =
      "source <(\"$0\" completion bash); meshbus() { :; }\n"
      "COMP_LINE=$1 COMP_POINT=${#1} COMP_WORDS=() COMPREPLY=()\n"
      "compopt() { :; }\n"
      "_meshbus \"$0\" \"${1##* }\" x\n"
      "((${#COMPREPLY[@]} == 0)) || printf '%s\\n' \"${COMPREPLY[@]}\"";
  const auto done = run({"bash", "-c", script, bin("meshbus"), line}, in_time);
  INFO(line << "\n" << done.err);
  CHECK(done.status == ExitStatus::exited(0));
  CHECK(done.err == "");
  return lines_of(done.out);
}

bool has(const Words& words, const std::string& word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

}  // namespace

TEST_CASE("cli: bash completes commands, flags, values, files and the ranks' command") {
  CHECK(offered("meshbus st") == Words{"stop", "status", "stacks"});
  CHECK(has(offered("meshbus "), "completion"));
  CHECK_FALSE(has(offered("meshbus "), "complete"));
  CHECK(offered("meshbus context u") == Words{"use"});
  CHECK(offered("meshbus help context") == Words{"context"});
  CHECK(offered("meshbus run --keep") == Words{"--keep-going"});
  CHECK(offered("meshbus run --gang ") == Words{"one", "all", "rest"});
  CHECK(offered("meshbus run --gang=") == Words{"one", "all", "rest"});
  CHECK(offered("meshbus run --restart on") == Words{"on-failure"});
  CHECK(offered("meshbus keygen op") == Words{"operator"});
  CHECK(offered("meshbus run --no-such-flag=") == Words{});
  CHECK(has(offered("meshbus run -n 2 -- tru"), "true"));
  CHECK(offered("meshbus run --hostfile /etc/hostnam") == Words{"/etc/hostname"});
}

TEST_CASE("cli: bash completes meshes, ranks, hosts and contexts that are there") {
  REQUIRE(run_cli({"context", "add", "lab", "--hosts", "tcp:h1:7420"}).status ==
          ExitStatus::exited(0));
  CHECK(offered("meshbus ps --context ") == Words{"lab"});
  CHECK(offered("meshbus context use ") == Words{"lab"});

  REQUIRE(run_cli({"context", "remove", "lab"}).status == ExitStatus::exited(0));
  CHECK(offered("meshbus ps --context ") == Words{});

  Process job(cli({"run", "-n", "3", "--name", "train", "--", "sleep", "60"}));
  REQUIRE(wait_until(
      [] { return run_cli({"status", "train"}).out.find("Running  0-2") != std::string::npos; },
      in_time));
  CHECK(offered("meshbus stop ") == Words{"train"});
  CHECK(offered("meshbus signal USR1 'train[") ==
        Words{"train[0-2]", "train[0]", "train[1]", "train[2]"});
  CHECK(offered("meshbus logs train --rank ") == Words{"0-2", "0", "1", "2"});
  const auto hosts = offered("meshbus ps --hosts unix:");
  CHECK(has(hosts, host_directories().front().string() + "/bus"));
  job.send_signal(SIGINT);
  CHECK(job.wait_exit(in_time) == ExitStatus::exited(130));
  CHECK(offered("meshbus stop ") == Words{});
}

TEST_CASE("cli: docs/reference/commands.md is what the help says") {
  const auto finished = run({"/usr/bin/python3", "-B", source_dir() + "/tests/docs/reference.py",
                             "--check", "--program", bin("meshbus")},
                            4 * in_time);  // it asks for the help of each command
  INFO(finished.out << finished.err);
  CHECK(finished.status == ExitStatus::exited(0));
}

TEST_CASE("cli: help shows a command, and writes a manual page for each") {
  CHECK(run_cli({"help", "context", "add"}).out == run_cli({"context", "add", "--help"}).out);
  CHECK(run_cli({"help"}).out == run_cli({"--help"}).out);
  const auto wrong = run_cli({"help", "rnu"});
  CHECK(wrong.status == ExitStatus::exited(2));
  CHECK(wrong.err.find("did you mean 'run'?") != std::string::npos);

  const TempDir pages;
  REQUIRE(run_cli({"help", "--man", pages.path().string()}).status == ExitStatus::exited(0));
  for (const char* name : {"meshbus", "meshbus-run", "meshbus-stop", "meshbus-context-add"}) {
    CAPTURE(name);
    const auto text = read_file(pages.path() / (std::string(name) + ".1"));
    CHECK(text.starts_with(".TH "));
    CHECK(text.find(".SH SYNOPSIS") != std::string::npos);
  }
  CHECK_FALSE(std::filesystem::exists(pages.path() / "meshbus-complete.1"));
  const auto refused = run_cli({"help", "--man", "/no/such/folder"});
  CHECK(refused.status == ExitStatus::exited(1));
  CHECK(refused.err.find("/no/such/folder/meshbus.1: cannot write it: No such file or directory") !=
        std::string::npos);
}
