"""The course: lessons written as Markdown in `assets/lessons/<language>/`, drawn step by step.

`reading` turns a file into a `Lesson` or into sentences about its mistakes; `facts/` computes every number a lesson
names; `pictures/` makes the interactive pictures of the plain values in `scene`, and `paint` draws them on a page;
`steps` is the sequence the learner follows; `words` holds the strings that are not part of a lesson.
"""
