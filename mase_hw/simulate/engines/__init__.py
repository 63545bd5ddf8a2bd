"""The simulation engines, a folder each; all play the same plan and are judged by the same scoreboard."""
