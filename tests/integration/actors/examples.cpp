// The programs in examples/ that have actors.
#include "tests/support/temp_dir.h"
#include "tests/world/client_library.h"

using namespace meshbus;
using namespace meshbus::test;

TEST_CASE(
    "word_count: four procs on two hosts find what is in the files; a folder that is not there is "
    "said so") {
  const TempDir dir;
  for (int i = 0; i < 10; ++i) {
    std::string text;
    for (int n = 0; n <= i; ++n)
      text += "The rank, the host; " + std::string(n % 2 == 0 ? "mesh" : "") + "\nrank" +
              std::to_string(n) + " ";
    dir.write("f" + std::to_string(i), text + "end");
  }
  const ProcessOptions options{.environment = {{"MESHBUS_BIN", bin("meshbus")}}};
  const auto counted = run({bin("word_count"), dir.path()}, in_time, options);
  INFO(counted.err);
  CHECK(counted.status == ExitStatus::exited(0));
  CHECK(counted.out == "110 rank\n110 the\n55 host\n30 mesh\n10 end\n");
  const auto missing = run({bin("word_count"), dir / "nowhere"}, in_time, options);
  CHECK(missing.status == ExitStatus::exited(1));
  CHECK(missing.err.find("word_count: actor_spawn_error: actors words of type word_counter: 4 of 4 "
                         "were not made: ") == 0);
  CHECK(missing.err.find("No such file or directory") != std::string::npos);
}
