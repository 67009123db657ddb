"""Time: the clock, timers, deadlines, and the watch over a peer."""
