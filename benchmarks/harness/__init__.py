"""Side by side: every contestant under the same load, in one run (`benchmarks/README.md`)."""
