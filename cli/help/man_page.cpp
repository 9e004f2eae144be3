#include "cli/help/man_page.h"

#include <CLI/CLI.hpp>

#include <cctype>
#include <sstream>
#include <string_view>

#include "cli/support/command.h"
#include "cli/support/help_text.h"

namespace meshbus::cli {
namespace {

/// Text as roff prints it unchanged: no request at the beginning of a line, hyphens to copy.
std::string roff(std::string_view text) {
  std::string out;
  bool is_line_start = true;
  for (const char c : text) {
    if (is_line_start && (c == '.' || c == '\'')) out += "\\&";
    if (c == '\\') {
      out += "\\e";
    } else if (c == '-') {
      out += "\\-";
    } else {
      out += c;
    }
    is_line_start = c == '\n';
  }
  return out;
}

std::string upper(std::string text) {
  for (char& c : text) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return text;
}

/// Paragraphs; lines that begin with a blank are shown as they are.
std::string paragraphs(const std::string& text) {
  std::string out;
  std::istringstream lines(text);
  bool is_example = false;
  for (std::string line; std::getline(lines, line);) {
    const bool indented = line.starts_with(' ');
    if (indented != is_example) out += indented ? ".nf\n" : ".fi\n";
    is_example = indented;
    out += line.empty() ? ".PP\n" : roff(line) + "\n";
  }
  return out + (is_example ? ".fi\n" : "");
}

std::string tagged(const std::string& name, const std::string& meaning) {
  return ".TP\n.B " + roff(name) + "\n" + roff(meaning) + "\n";
}

}  // namespace

std::string man_name(const CLI::App& app) {
  return app.get_parent() == nullptr ? app.get_name()
                                     : man_name(*app.get_parent()) + "-" + app.get_name();
}

std::string man_page(const CLI::App& app, const std::string& version) {
  const std::string name = man_name(app);
  const std::string meaning =
      app.get_description().substr(0, app.get_description().find_first_of(".\n"));
  std::string page = ".TH " + upper(roff(name)) + " 1 \"\" \"meshbus " + roff(version) + "\"\n" +
                     ".SH NAME\n" + roff(name) + " \\- " + roff(meaning) + "\n.SH SYNOPSIS\n.B " +
                     roff(usage_text(app)) + "\n";
  const auto begin = app.get_description().find('\n');
  if (begin != std::string::npos)
    page += ".SH DESCRIPTION\n" + paragraphs(app.get_description().substr(begin + 1));
  for (const auto& group : help_groups(app)) {
    page += ".SH " + upper(roff(group.title)) + "\n";
    for (const auto& entry : group.entries) page += tagged(entry.name, entry.meaning);
  }
  if (!app.get_footer().empty()) page += ".SH NOTES\n" + paragraphs(app.get_footer());
  std::string also;
  if (app.get_parent() != nullptr) also = man_name(*app.get_parent()) + "(1)";
  for (const auto* below : shown_commands(app))
    also += (also.empty() ? "" : ", ") + man_name(*below) + "(1)";
  if (!also.empty()) page += ".SH SEE ALSO\n" + roff(also) + "\n";
  return page;
}

}  // namespace meshbus::cli
