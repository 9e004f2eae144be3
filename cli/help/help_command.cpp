#include "cli/help/help_command.h"

#include <CLI/CLI.hpp>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "cli/help/man_page.h"
#include "cli/support/command.h"
#include "cli/support/exit_codes.h"
#include "cli/support/help_text.h"
#include "cli/support/text_error.h"
#include "common/base/did_you_mean.h"

namespace meshbus::cli {
namespace {

struct HelpArguments {
  std::vector<std::string> words;
  std::string man_directory;
};

int show_help(const CLI::App& app, const std::vector<std::string>& words) {
  const auto* verb = &app;
  for (const auto& word : words) {
    const auto* below = find_command(*verb, word);
    if (below == nullptr) {
      std::vector<std::string> names;
      for (const auto* one : shown_commands(*verb)) names.push_back(one->get_name());
      const auto near = did_you_mean(word, names);
      complain("unknown command '" + word + "'" +
               (near.empty() ? "; the commands are in meshbus --help"
                             : "; did you mean '" + std::string(near) + "'?"));
      return kUsage;
    }
    verb = below;
  }
  std::fputs(help_text(*verb, help_width()).c_str(), stdout);
  return 0;
}

/// Writes a page for the command and each below it. Returns the exit code.
int write_pages(const CLI::App& app, const std::string& directory) {
  const auto path = directory + "/" + man_name(app) + ".1";
  std::ofstream file(path);
  file << man_page(app, MESHBUS_VERSION);
  file.close();
  if (!file) {
    complain(path + ": cannot write it: " + std::strerror(errno));
    return 1;
  }
  for (const auto* below : shown_commands(app)) {
    if (const int code = write_pages(*below, directory); code != 0) return code;
  }
  return 0;
}

}  // namespace

void add_help(CLI::App& app, Commands& commands) {
  const auto arguments = std::make_shared<HelpArguments>();
  auto& verb = commands.add(
      app, "help",
      {.meaning = "Show what a command does, its flags and examples",
       .examples = {"help run", "help context add", "help --man /usr/local/share/man/man1"},
       .exit_codes = "0; 1 a page cannot be written"},
      [&app, arguments] {
        return arguments->man_directory.empty() ? show_help(app, arguments->words)
                                                : write_pages(app, arguments->man_directory);
      });
  verb.add_option("COMMAND", arguments->words, "A command; default: all of them");
  verb.add_option("--man", arguments->man_directory,
                  "Write manual pages of all commands into this folder instead")
      ->type_name("DIRECTORY");
}

}  // namespace meshbus::cli
