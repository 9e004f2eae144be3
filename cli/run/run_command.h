#pragma once

namespace CLI {
class App;
}  // namespace CLI

namespace meshbus::cli {

class Commands;
/// `meshbus run`
void add_run(CLI::App& app, Commands& commands);

}  // namespace meshbus::cli
