"""The course: lessons written as Markdown in `assets/lessons/<language>/`, drawn step by step.

`files/` turns a file into a lesson or into sentences about its mistakes, and has the strings that are not part of one;
`facts/` computes every number a lesson names; `pictures/` makes the interactive pictures, `drawing/` draws them on a
page; `steps` is the sequence the learner follows.
"""
