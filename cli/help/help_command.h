#pragma once

namespace CLI {
class App;
}  // namespace CLI

namespace meshbus::cli {

class Commands;
/// `meshbus help`
void add_help(CLI::App& app, Commands& commands);

}  // namespace meshbus::cli
