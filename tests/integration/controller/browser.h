#pragma once

#include <string>

#include <nlohmann/json.hpp>

#include "tests/support/temp_dir.h"
#include "tests/world/client_library.h"

namespace meshbus::test {

/// Chromium without a window, steered by WebDriver. Throws when it does not do what it is told.
class Browser {
 public:
  Browser();
  ~Browser();
  Browser(const Browser&) = delete;
  Browser& operator=(const Browser&) = delete;

  void open(const std::string& url);
  /// A window of that width, whose user likes it dark, or light.
  void look(int width, bool is_dark);
  /// What the body of a function of JavaScript returns.
  nlohmann::json run(const std::string& script);
  /// Waits for an element that shows a text with that in it, and returns its id.
  std::string find(const std::string& css, const std::string& text = {});
  void click(const std::string& css, const std::string& text = {});
  void type(const std::string& css, const std::string& keys);
  /// To what has the focus.
  void press(const std::string& keys);
  /// Errors and refusals by a policy that the console has, a line each.
  std::string complaints();

 private:
  nlohmann::json ask(const std::string& method, const std::string& path,
                     const nlohmann::json& body = nlohmann::json::object());

  TempDir profile_;
  Process driver_;
  std::string url_;
  std::string session_;
};

}  // namespace meshbus::test
