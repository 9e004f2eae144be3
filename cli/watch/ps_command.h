#pragma once

namespace CLI {
class App;
}  // namespace CLI

namespace meshbus::cli {

class Commands;
/// `meshbus ps`
void add_ps(CLI::App& app, Commands& commands);

}  // namespace meshbus::cli
